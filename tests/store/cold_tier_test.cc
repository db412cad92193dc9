#include "store/cold_tier.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "store/error.h"
#include "tests/store/cold_scenario.h"
#include "tests/store/refusing_kernel.h"
#include "tests/store/temporary_directory.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class ColdTierTest : public testing::Test {
 protected:
  explicit ColdTierTest(const fs::path& parent = fs::temp_directory_path()) : parent_(parent) {}

  std::unique_ptr<ColdTier> create() { return open(ColdAccess::kCreate); }
  std::unique_ptr<ColdTier> open(ColdAccess access = ColdAccess::kOpen) {
    return std::make_unique<ColdTier>(ColdOptions{directory_, kColdMinimumBytes, access}, budget_);
  }
  Record get(const ColdTier& tier, Epoch epoch, NodeId node, std::size_t size, Part part = Part::kPublic) {
    Record record(size, std::byte{0xee});
    tier.get(epoch, part, node, record);
    return record;
  }
  template <typename Body>
  std::string error_of(const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  const TemporaryDirectory parent_;
  const fs::path directory_ = parent_.path() / "cold";
  MemoryBudget budget_{1 << 30};
};

class ColdTierInMemoryTest : public ColdTierTest {
 protected:
  ColdTierInMemoryTest() : ColdTierTest(fast_directory()) {}
};

TEST_F(ColdTierTest, GivesBackRecordsOfAnySizeHoweverTheyWereWritten) {
  const std::vector<std::size_t> sizes = {1, 5, 4096, 249856, 262144, 262149, 1000003};
  auto tier = create();
  std::vector<Record> records;
  for (std::size_t size : sizes) records.push_back(make_record(size, static_cast<unsigned>(size)));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const NodeId node = static_cast<NodeId>(i);
    tier->ingest(3, Part::kPublic, std::array{node}, [&](NodeId) { return std::span<const std::byte>(records[i]); });
    tier->put(3, Part::kPrivate, node, records[i]);
  }
  const auto expect_all = [&] {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      for (Part part : kParts) ASSERT_EQ(get(*tier, 3, static_cast<NodeId>(i), sizes[i], part), records[i]) << sizes[i];
    }
  };
  expect_all();
  tier->flush();
  expect_all();
  tier.reset();
  tier = open();
  expect_all();
  tier->verify();
}

TEST_F(ColdTierTest, KeepsTheRecordsOfDifferentEpochsPartsAndNodesApart) {
  auto tier = create();
  std::map<std::tuple<Epoch, Part, NodeId>, Record> all;
  for (Epoch epoch : {1u, 255u, 256u, 1u << 31, 0xffffffffu}) {
    for (Part part : kParts) {
      for (NodeId node : {0u, 1u, 256u, 0xfffffffeu}) {
        all[{epoch, part, node}] = make_record(100, static_cast<unsigned>(all.size()));
        tier->put(epoch, part, node, all[{epoch, part, node}]);
      }
    }
  }
  tier->flush();
  for (const auto& [key, record] : all) {
    EXPECT_EQ(get(*tier, std::get<0>(key), std::get<2>(key), 100, std::get<1>(key)), record);
  }
}

// What the store needs of it, against a map: the newest version of each record, whatever came before it.
TEST_F(ColdTierInMemoryTest, BehavesLikeAMapUnderAnyOrderOfOperations) {
  std::mt19937 random(1);
  auto tier = create();
  std::map<std::pair<Epoch, NodeId>, Record> model;
  std::map<std::pair<Epoch, NodeId>, bool> unsure;  // erased since the last flush
  const std::size_t sizes[] = {3000, 40000, 600000};
  const auto size_of = [&](NodeId node) { return sizes[node % 3]; };
  Epoch newest = 2;
  for (int step = 0; step < 1500; ++step) {
    const NodeId node = static_cast<NodeId>(random() % 12);
    const Epoch epoch = static_cast<Epoch>(1 + random() % newest);
    const auto write = [&](NodeId which) -> const Record& {
      unsure.erase({epoch, which});
      return model[{epoch, which}] = random() % 8 == 0 ? Record(size_of(which))
                                                       : make_record(size_of(which), static_cast<unsigned>(random()));
    };
    switch (random() % 16) {
      case 0: {
        std::vector<NodeId> nodes;
        for (NodeId each = 0; each < 12; ++each) {
          if (random() % 3 == 0) nodes.push_back(each);
        }
        tier->ingest(epoch, Part::kPublic, nodes, [&](NodeId each) { return std::span<const std::byte>(write(each)); });
        break;
      }
      case 1:
      case 2:
      case 3:
      case 4:
      case 5: tier->put(epoch, Part::kPublic, node, write(node)); break;
      case 6:
      case 7:
      case 8:
        tier->erase(epoch, Part::kPublic, node, size_of(node));
        model.erase({epoch, node});
        unsure[{epoch, node}] = true;
        break;
      case 9:
        tier->flush();
        unsure.clear();
        if (random() % 4 == 0) {
          tier.reset();
          tier = open();
        }
        break;
      case 10:
        if (random() % 4 == 0) {
          tier->erase_epochs_after(epoch);
          std::erase_if(model, [&](const auto& entry) { return entry.first.first > epoch; });
        } else {
          ++newest;
        }
        break;
      default:
        if (const auto found = model.find({epoch, node}); found != model.end()) {
          ASSERT_EQ(get(*tier, epoch, node, size_of(node)), found->second) << "step " << step;
        } else if (!unsure.contains({epoch, node})) {
          ASSERT_THROW(get(*tier, epoch, node, size_of(node)), Error) << "step " << step;
        }
    }
  }
  tier->flush();
  for (const auto& [key, record] : model) ASSERT_EQ(get(*tier, key.first, key.second, record.size()), record);
}

TEST_F(ColdTierTest, SaysWhichRecordIsMissing) {
  auto tier = create();
  tier->put(7, Part::kPrivate, 41, make_record(100, 1));
  EXPECT_THAT(error_of([&] { get(*tier, 7, 42, 100, Part::kPrivate); }),
              AllOf(HasSubstr("private"), HasSubstr("node 42"), HasSubstr("epoch 7"), HasSubstr(directory_.string())));
  EXPECT_THAT(error_of([&] { get(*tier, 7, 41, 104, Part::kPrivate); }), HasSubstr("not a record of 104 bytes"));
}

TEST_F(ColdTierTest, KeepsAllZeroRecordsForNextToNothing) {
  auto tier = create();
  const Record zeroes(249856);
  std::vector<NodeId> nodes(1000);
  for (NodeId node = 0; node < 1000; ++node) nodes[node] = node;
  tier->ingest(1, Part::kPrivate, nodes, [&](NodeId) { return std::span<const std::byte>(zeroes); });
  EXPECT_LT(tier->disk_bytes(), 32u << 10);
  EXPECT_EQ(get(*tier, 1, 999, zeroes.size(), Part::kPrivate), zeroes);
}

TEST_F(ColdTierTest, DropsTheFilesOfErasedEpochsAtOnce) {
  auto tier = create();
  const Record record = make_record(200000, 1);
  for (Epoch epoch = 1; epoch <= 6; ++epoch) {
    tier->ingest(epoch, Part::kPublic, std::vector<NodeId>{1, 2, 3, 4},
                 [&](NodeId) { return std::span<const std::byte>(record); });
  }
  const std::uint64_t full = tier->disk_bytes();
  tier->erase_epochs(2, 3);
  EXPECT_NEAR(static_cast<double>(tier->disk_bytes()), static_cast<double>(full) * 4 / 6, 8192);
  tier->erase_epochs_after(5);
  EXPECT_NEAR(static_cast<double>(tier->disk_bytes()), static_cast<double>(full) * 3 / 6, 8192);
  for (Epoch epoch = 1; epoch <= 6; ++epoch) {
    if (epoch == 1 || epoch == 4 || epoch == 5) {
      EXPECT_EQ(get(*tier, epoch, 3, record.size()), record);
    } else {
      EXPECT_THROW(get(*tier, epoch, 3, record.size()), Error);
    }
  }
}

TEST_F(ColdTierTest, CountsTheBytesOfItsFilesAndNotThoseOfRecords) {
  auto tier = create();
  EXPECT_EQ(tier->bytes_written(), 0U);
  const Record zeros(500000, std::byte{0});
  const Record noise = make_record(500000, 1);
  tier->ingest(1, Part::kPublic, std::array<NodeId, 1>{1}, [&](NodeId) { return std::span<const std::byte>(zeros); });
  EXPECT_LT(tier->bytes_written(), 10000U);
  tier->put(2, Part::kPublic, 1, noise);
  tier->flush();
  EXPECT_EQ(tier->bytes_written(), tier->disk_bytes());
  EXPECT_EQ(tier->bytes_read(), 0U);
  EXPECT_EQ(get(*tier, 2, 1, noise.size()), noise);
  EXPECT_NEAR(static_cast<double>(tier->bytes_read()), static_cast<double>(tier->disk_bytes()), 10000);
}

TEST_F(ColdTierTest, ReturnsTheSpaceOfErasedRecordsInTheBackground) {
  auto tier = create();
  constexpr NodeId kNodes = 4000;
  std::mt19937 random(1);
  std::vector<NodeId> order(kNodes);
  for (NodeId node = 0; node < kNodes; ++node) order[node] = node;
  const Record record = make_record(32 << 10, 1);
  for (Epoch epoch = 1; epoch <= 4; ++epoch) {
    const std::span<const NodeId> nodes = std::span(order).subspan((epoch - 1) * 1000, 1000);
    tier->ingest(epoch, Part::kPublic, nodes, [&](NodeId) { return std::span<const std::byte>(record); });
  }
  const std::uint64_t full = tier->disk_bytes();
  std::ranges::shuffle(order, random);
  for (NodeId node : std::span(order).first(kNodes / 10 * 9)) {
    tier->erase(1 + node / 1000, Part::kPublic, node, record.size());
  }
  tier->flush();
  for (int tries = 0; tries < 1200 && tier->disk_bytes() > full / 3; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_LE(tier->disk_bytes(), full / 3);
  EXPECT_GT(tier->bytes_read(), full / 2) << "compactions have read what was there";
  EXPECT_GT(tier->bytes_written(), full + tier->disk_bytes() / 2) << "and written what is left";
  for (NodeId node : std::span(order).subspan(kNodes / 10 * 9)) {
    ASSERT_EQ(get(*tier, 1 + node / 1000, node, record.size()), record);
  }
}

TEST_F(ColdTierTest, CommitsValuesThatAreThereAfterReopening) {
  auto tier = create();
  EXPECT_EQ(tier->value("manifest"), std::nullopt);
  const std::string big(3'000'000, 'b');
  tier->commit(Values{{"table", big}, {"manifest", "first"}, {"empty", ""}});
  tier->commit(Values{{"manifest", "second"}, {"manifest2", std::string("with\0zero", 9)}});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(tier->value("manifest"), "second");
    EXPECT_EQ(tier->value("manifest2"), std::string("with\0zero", 9));
    EXPECT_EQ(tier->value("empty"), "");
    EXPECT_EQ(tier->value("table"), big);
    EXPECT_EQ(tier->value("tabl"), std::nullopt);
    tier.reset();
    tier = open();
  }
  tier->commit(Values{{"table", "short now"}});
  EXPECT_EQ(tier->value("table"), "short now");
}

TEST_F(ColdTierTest, ChargesItsMemoryAndNamesTheMinimum) {
  auto tier = create();
  EXPECT_EQ(budget_.used(MemoryTag::kCold), kColdMinimumBytes);
  tier.reset();
  EXPECT_EQ(budget_.used(), 0u);
  EXPECT_THAT(error_of([&] {
                ColdTier({directory_, kColdMinimumBytes - 1, ColdAccess::kOpen}, budget_);
              }),
              HasSubstr("8.00 MiB"));
  MemoryBudget small(kColdMinimumBytes - 1);
  EXPECT_THROW(ColdTier({directory_, kColdMinimumBytes, ColdAccess::kOpen}, small), Error);
}

TEST_F(ColdTierTest, NeitherCreatesOverADatabaseNorOpensNothing) {
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("no database in " + directory_.string()));
  create()->commit(Values{{"a", "1"}});
  EXPECT_THAT(error_of([&] { create(); }), HasSubstr("holds a database already"));
  EXPECT_EQ(open()->value("a"), "1");
}

TEST_F(ColdTierTest, RefusesADirectoryThatIsInUse) {
  auto tier = create();
  tier->commit(Values{{"a", "1"}});
  EXPECT_THAT(error_of([&] { open(); }), AllOf(HasSubstr("in use by another run"), HasSubstr(directory_.string())));
  EXPECT_EQ(tier->value("a"), "1");
}

TEST_F(ColdTierTest, SaysWhenTheFileSystemRefusesDirectIo) {
  const Record record = make_record(300000, 1);
  with_refusing_kernel(Refused::kDirectOpen, [&] {
    auto tier = create();
    ASSERT_EQ(tier->modes().size(), 1u);
    EXPECT_TRUE(tier->modes()[0].degraded());
    EXPECT_EQ(tier->modes()[0].actual, "buffered");
    EXPECT_THAT(tier->modes()[0].reason, HasSubstr("O_DIRECT"));
    tier->put(1, Part::kPublic, 1, record);
    tier->flush();
    tier->commit(Values{{"a", "1"}});
    EXPECT_EQ(get(*tier, 1, 1, record.size()), record);
  });
  auto tier = open();
  EXPECT_EQ(tier->modes()[0].requested, "direct");
  EXPECT_EQ(get(*tier, 1, 1, record.size()), record);
}

// A crash right after an ingestion leaves the file under both names.
TEST_F(ColdTierTest, RemovesTheLeftoversOfACrashAndNothingElse) {
  const Record record = make_record(100000, 1);
  auto tier = create();
  tier->put(1, Part::kPublic, 1, record);
  tier->flush();
  tier.reset();
  for (const auto& entry : fs::directory_iterator(directory_)) {
    if (entry.path().extension() == ".sst") fs::create_hard_link(entry.path(), directory_ / "incoming-records");
  }
  ASSERT_TRUE(fs::exists(directory_ / "incoming-records"));
  std::ofstream(directory_ / "incoming-values") << "half a file";
  tier = open();
  EXPECT_FALSE(fs::exists(directory_ / "incoming-records"));
  EXPECT_FALSE(fs::exists(directory_ / "incoming-values"));
  tier->put(2, Part::kPublic, 1, make_record(5000, 2));
  tier->flush();
  tier->verify();
  EXPECT_EQ(get(*tier, 1, 1, record.size()), record);
}

TEST_F(ColdTierTest, ServesReadersWhileRecordsAreWrittenAndValuesCommitted) {
  auto tier = create();
  constexpr NodeId kNodes = 300;
  const auto record_of = [](NodeId node) { return make_record(60000, node); };
  std::atomic<NodeId> written{0};
  std::atomic<bool> failed{false};
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    for (NodeId node = 0; node < kNodes; ++node) {
      tier->put(1 + node / 50, Part::kPublic, node, record_of(node));
      written.store(node + 1);
      if (node % 7 == 0) tier->erase(1 + node / 50, Part::kPrivate, node, 60000);
    }
  });
  threads.emplace_back([&] {
    for (int i = 0; i < 30; ++i) {
      tier->commit(Values{{"a", std::to_string(i)}, {"b", std::to_string(i)}});
      failed = failed || tier->value("a") != std::to_string(i) || tier->value("b") != std::to_string(i);
    }
  });
  for (unsigned reader = 0; reader < 2; ++reader) {
    threads.emplace_back([&, reader] {
      std::mt19937 random(reader);
      while (written.load() < kNodes) {
        if (written.load() == 0) continue;
        const NodeId node = static_cast<NodeId>(random() % written.load());
        failed = failed || get(*tier, 1 + node / 50, node, 60000) != record_of(node);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(failed);
}

// Small, but with a file of each kind: values over several commits, records by put and ingest, erased ones, a file that
// compaction wrote.
class ColdTierDamageTest : public ColdTierInMemoryTest {
 protected:
  ColdTierDamageTest() {
    auto tier = create();
    for (std::uint64_t number = 1; number <= 6; ++number) {
      for (NodeId node = 0; node < 4; ++node) {
        tier->put(static_cast<Epoch>(number), Part::kPublic, node, make_record(3000, node));
      }
      tier->flush();
      tier->commit(values(number));
    }
    tier->erase(1, Part::kPublic, 1, 3000);
    tier->flush();
    tier->commit(values(7));
  }
  static Values values(std::uint64_t number) {
    return {{"number", std::to_string(number)}, {"table", std::string(5000, static_cast<char>('a' + number))}};
  }

  // Opens a copy of the database in which one bit of one file is other than it was. Error, or all is right.
  void expect_no_wrong_data(const fs::path& file, std::size_t byte, int bit) {
    const fs::path copy = parent_.path() / "copy";
    fs::remove_all(copy);
    fs::copy(directory_, copy);
    {
      std::fstream stream(copy / file.filename(), std::ios::in | std::ios::out | std::ios::binary);
      stream.seekg(static_cast<std::streamoff>(byte));
      const char was = static_cast<char>(stream.get());
      stream.seekp(static_cast<std::streamoff>(byte));
      stream.put(static_cast<char>(was ^ (1 << bit)));
    }
    try {
      ColdTier tier({copy, kColdMinimumBytes, ColdAccess::kOpen}, budget_);
      tier.verify();
      for (const auto& [key, value] : values(7)) ASSERT_EQ(tier.value(key), value);
      for (Epoch epoch = 1; epoch <= 6; ++epoch) {
        for (NodeId node = 0; node < 4; ++node) {
          if (epoch == 1 && node == 1) continue;
          ASSERT_EQ(get(tier, epoch, node, 3000), make_record(3000, node));
        }
      }
      ++unnoticed_;
    } catch (const Error&) {
      ++noticed_;
    }
  }

  int noticed_ = 0;
  int unnoticed_ = 0;
};

TEST_F(ColdTierDamageTest, NeverReadsWrongDataAfterAFlippedBit) {
  const char* wanted = std::getenv("SHOAL_COLD_FLIPS");
  const int flips = wanted == nullptr ? 400 : std::atoi(wanted);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory_)) {
    if (entry.is_regular_file() && entry.file_size() > 0) files.push_back(entry.path());
  }
  std::mt19937 random(1);
  for (int flip = 0; flip < flips; ++flip) {
    // The small files, where a bit matters most, as often as the big ones.
    const fs::path& file = files[static_cast<std::size_t>(flip) % files.size()];
    const std::size_t byte = random() % fs::file_size(file);
    const int bit = static_cast<int>(random() % 8);
    SCOPED_TRACE(fmt::format("{}, byte {}, bit {}", file.filename().string(), byte, bit));
    expect_no_wrong_data(file, byte, bit);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(noticed_, flips / 4);
}

TEST_F(ColdTierDamageTest, NoticesAnyFlippedBitOfTheCommitMark) {
  const fs::path mark = directory_ / "COMMIT";
  for (std::size_t byte = 0; byte < fs::file_size(mark); ++byte)
    expect_no_wrong_data(mark, byte, static_cast<int>(byte % 8));
  EXPECT_EQ(unnoticed_, 0);
}

TEST_F(ColdTierTest, NoticesACommitThatWasRolledBackAndLeavesTheFilesAlone) {
  auto tier = create();
  tier->commit(Values{{"a", "1"}});
  tier->commit(Values{{"a", "2"}});
  tier.reset();
  const auto files = [&] {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(directory_)) paths.push_back(entry.path());
    std::ranges::sort(paths);
    return paths;
  };
  const std::vector<fs::path> before = files();
  const auto manifest = std::ranges::find_if(
      before, [](const fs::path& path) { return path.filename().string().starts_with("MANIFEST"); });
  // RocksDB takes a cut-off MANIFEST for one that a crash has cut off, and opens what came before.
  fs::resize_file(*manifest, fs::file_size(*manifest) - 1);
  EXPECT_THAT(error_of([&] { open(); }), AllOf(HasSubstr("is at commit 1"), HasSubstr("says 2")));
  EXPECT_EQ(files(), before);
}

TEST_F(ColdTierDamageTest, AcceptsACommitWhoseMarkACrashHasPrevented) {
  std::ofstream(directory_ / "COMMIT") << "commit 6\ncommit 6\n";
  auto tier = open();
  EXPECT_EQ(tier->value("number"), "7");
  tier->commit(values(8));
  tier.reset();
  EXPECT_EQ(open()->value("number"), "8");
}

}  // namespace
}  // namespace shoal
