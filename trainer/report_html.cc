#include "trainer/report_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <vector>

#include "store/size_text.h"

namespace shoal {
namespace {

using nlohmann::json;

struct Series {
  std::string name;
  std::string colour;
  std::vector<std::pair<double, double>> points;
};

constexpr double kWidth = 560;
constexpr double kHeight = 220;
constexpr double kLeft = 60;
constexpr double kRight = 15;
constexpr double kTop = 15;
constexpr double kBottom = 35;
// A chart is no clearer with more.
constexpr std::size_t kMostPoints = 600;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string chart(const std::string& title, const std::vector<Series>& series) {
  double x_most = 1;
  double y_least = INFINITY;
  double y_most = -INFINITY;
  for (const Series& each : series) {
    for (const auto& [x, y] : each.points) {
      x_most = std::max(x_most, x);
      y_least = std::min(y_least, y);
      y_most = std::max(y_most, y);
    }
  }
  if (!(y_least <= y_most)) return "";
  if (y_least >= 0 && y_least < 0.5 * y_most) y_least = 0;
  if (y_most == y_least) {
    const double margin = std::max(1e-9, std::abs(y_least) / 2);
    y_least -= margin;
    y_most += margin;
  }
  const auto x_of = [&](double x) { return kLeft + x / x_most * (kWidth - kLeft - kRight); };
  const auto y_of = [&](double y) {
    return kHeight - kBottom - (y - y_least) / (y_most - y_least) * (kHeight - kTop - kBottom);
  };
  std::string svg = fmt::format("<figure><figcaption>{}</figcaption><svg viewBox='0 0 {} {}' width='{}' height='{}'>",
                                escaped(title), kWidth, kHeight, kWidth, kHeight);
  constexpr int kTicks = 4;
  // As many digits as tell one tick from the next.
  const double highest = std::max(std::abs(y_least), std::abs(y_most));
  const int digits = std::max(3, 2 + static_cast<int>(std::log10(highest / (y_most - y_least) * kTicks)));
  for (int tick = 0; tick <= kTicks; ++tick) {
    const double y = y_least + (y_most - y_least) * tick / kTicks;
    svg += fmt::format("<line x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}' class='grid'/>", kLeft, kWidth - kRight, y_of(y),
                       y_of(y));
    svg += fmt::format("<text x='{}' y='{:.1f}' text-anchor='end'>{:.{}g}</text>", kLeft - 6, y_of(y) + 4, y, digits);
  }
  const double rounds_per_tick = std::ceil(x_most / kTicks);
  for (double x = 0; x <= x_most; x += rounds_per_tick) {
    svg +=
        fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{:.0f}</text>", x_of(x), kHeight - kBottom + 16, x);
  }
  svg += fmt::format("<text x='{}' y='{}' text-anchor='middle'>rounds</text>", (kLeft + kWidth) / 2, kHeight - 4);
  double legend = kLeft + 10;
  for (const Series& each : series) {
    if (each.points.empty()) continue;
    svg += fmt::format("<polyline fill='none' stroke='{}' stroke-width='1.8' points='", each.colour);
    const std::size_t stride = each.points.size() / kMostPoints + 1;
    for (std::size_t i = 0; i < each.points.size(); i += stride) {
      svg += fmt::format("{:.1f},{:.1f} ", x_of(each.points[i].first), y_of(each.points[i].second));
    }
    svg += "'/>";
    if (each.points.size() == 1) {  // no line
      const auto& [x, y] = each.points.front();
      svg += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='3.5' fill='{}'/>", x_of(x), y_of(y), each.colour);
    }
    if (series.size() > 1) {
      svg += fmt::format("<text x='{:.0f}' y='{}' style='fill:{}'>{}</text>", legend, kTop + 2, each.colour, each.name);
      legend += 8.0 * static_cast<double>(each.name.size()) + 15;
    }
  }
  return svg + "</svg></figure>\n";
}

std::string row(const std::string& what, const std::string& value) {
  return fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", what, escaped(value));
}

std::string percent(const json& value) {
  return value.is_number() ? fmt::format("{:.2f} %", 100 * value.get<double>()) : std::string("-");
}

std::string table(const json& s, const GraphStatistics& network) {
  const auto bytes = [&](const char* key) { return size_text(s.at(key).get<std::uint64_t>()); };
  std::string text = "<table>\n";
  text += row("population", fmt::format("{} nodes of {} ({} parameters)", s["nodes"].get<std::uint64_t>(),
                                        s["model"].get<std::string>(), s["parameters"].get<std::uint64_t>()));
  text += row("algorithm",
              fmt::format("{}, {} rounds", s["algorithm"].get<std::string>(), s["rounds"].get<std::uint64_t>()));
  text += row("network", network.text());
  text += row("accuracy", fmt::format("{} mean of sampled nodes, {} mean model", percent(s["accuracy_mean"]),
                                      percent(s["accuracy_mean_model"])));
  text += row("speed", fmt::format("{:.1f} node-steps a second, {} node-steps in {:.1f} s",
                                   s["node_steps_per_second"].get<double>(), s["node_steps"].get<std::uint64_t>(),
                                   s["training_seconds"].get<double>()));
  text += row("memory", fmt::format("--ram {}, peak RSS {}, {} a node", bytes("ram_budget_bytes"),
                                    bytes("peak_rss_bytes"), bytes("state_bytes_per_node")));
  text += row("disk", fmt::format("{} stored, {} read, {} written", bytes("store_bytes"), bytes("bytes_read"),
                                  bytes("bytes_written")));
  text += row("state_hash", s["state_hash"].get<std::string>());
  return text + "</table>\n";
}

}  // namespace

std::string report_html(const std::filesystem::path& folder, const json& summary, const GraphStatistics& network) {
  Series loss{"loss", "#2563eb", {}};
  Series consensus{"consensus distance", "#2563eb", {}};
  Series speed{"node-steps/s", "#2563eb", {}};
  Series mean{"nodes, mean", "#2563eb", {}};
  Series least{"nodes, least", "#f59e0b", {}};
  Series mean_model{"mean model", "#16a34a", {}};
  std::ifstream metrics(folder / "metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) {
    const json at = json::parse(line, nullptr, false);
    if (!at.is_object()) continue;
    const double round = at.value("round", 0.0) + 1;
    const auto take = [&](Series& series, const json& from, const char* key) {
      if (from.contains(key) && from[key].is_number()) series.points.emplace_back(round, from[key].get<double>());
    };
    take(loss, at, "loss");
    take(consensus, at, "consensus_distance");
    take(speed, at, "node_steps_per_second");
    if (at.contains("accuracy")) {
      take(mean, at["accuracy"], "mean");
      take(least, at["accuracy"], "min");
      take(mean_model, at["accuracy"], "mean_model");
    }
  }
  std::string html =
      "<!doctype html><html lang='en'><meta charset='utf-8'><title>Shoal run</title>\n<style>body{font:15px/1.5 "
      "system-ui,sans-serif;margin:2em auto;max-width:1200px;padding:0 1em;color:#1f2937}figure{display:inline-block;"
      "margin:0 1em 1em 0}figcaption{font-weight:600}svg "
      "text{font-size:11px;fill:#6b7280}.grid{stroke:#e5e7eb}th{text-align:left;padding-right:1.5em;font-weight:600;"
      "vertical-align:top}td{font-variant-numeric:tabular-nums}</style>\n<h1>Shoal run</h1>\n";
  html += table(summary, network);
  html += "<h2>Over the rounds</h2>\n";
  html += chart("Accuracy of sampled nodes and of the mean model", {mean, least, mean_model});
  html += chart("Training loss, mean over nodes that trained", {loss});
  html += chart("Consensus distance", {consensus});
  html += chart("Node-steps a second", {speed});
  return html + "<p>All figures are in metrics.jsonl, nodes.csv and summary.json beside this file.</p></html>\n";
}

}  // namespace shoal
