// The runs that made Shoal necessary: what an all-in-RAM design with neighbour buffers takes, and what Shoal takes.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace shoal {

struct NaiveRow {
  std::string run;
  std::uint64_t published_bytes = 0;  // measured by others
  std::uint64_t computed_bytes = 0;   // weights, gradient, optimizer and a buffer for each neighbour, of every node
  std::uint64_t least_ram_bytes = 0;  // Shoal's
  std::uint64_t ram_bytes = 0;        // that Shoal is given here
  std::uint64_t peak_rss_bytes = 0;   // with that
  std::uint64_t disk_bytes = 0;
};

std::vector<NaiveRow> compare_naive();
std::string naive_text(const std::vector<NaiveRow>& rows);
nlohmann::json naive_json(const std::vector<NaiveRow>& rows);

}  // namespace shoal
