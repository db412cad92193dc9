// Two hosts that share no memory, only a cable: two network namespaces of this machine. Needs root and iproute2.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace shoal {

class TwoHosts {
 public:
  static constexpr const char* kFirstAddress = "10.77.213.1";
  static constexpr const char* kSecondAddress = "10.77.213.2";
  static constexpr const char* kNet = "10.77.213.0/24";

  TwoHosts() : first_(fmt::format("shoal-test-{}-a", ::getpid())), second_(fmt::format("shoal-test-{}-b", ::getpid())) {
    // The cable's ends are made in the namespaces, so its addresses are nobody else's.
    there_ = ip("netns add {}", first_) && ip("netns add {}", second_) &&
             ip("link add cable netns {} type veth peer name cable netns {}", first_, second_) &&
             ip("-n {} address add {}/24 dev cable", first_, kFirstAddress) &&
             ip("-n {} address add {}/24 dev cable", second_, kSecondAddress);
    for (const std::string& name : {first_, second_}) {
      there_ = there_ && ip("-n {} link set cable up", name) && ip("-n {} link set lo up", name);
    }
  }
  ~TwoHosts() {
    for (const std::string& name : {first_, second_}) ip("netns delete {}", name);
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  bool there() const { return there_; }
  // Of the namespaces, and good host names.
  const std::string& first() const { return first_; }
  const std::string& second() const { return second_; }

 private:
  template <typename... Names>
  static bool ip(fmt::format_string<const Names&...> words, const Names&... names) {
    return std::system(fmt::format("ip {} 2>/dev/null", fmt::format(words, names...)).c_str()) == 0;
  }

  const std::string first_;
  const std::string second_;
  bool there_ = false;
};

}  // namespace shoal
