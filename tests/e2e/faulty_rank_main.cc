// shoal-train with something missing on one rank: faulty-rank RANK FAULT shoal-train FLAGS... FAULT is a number, and
// that rank's store has an I/O error at its nth read; or no-io-uring, and its kernel has none.
#include <fmt/format.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "store/error.h"
#include "store/faulty_device.h"
#include "tests/store/refusing_kernel.h"
#include "trainer/train_options.h"
#include "trainer/training.h"

int main(int argc, char** argv) {
  using namespace shoal;
  SHOAL_CHECK(argc > 3);
  Communicator ranks;
  const bool here = ranks.rank() == static_cast<unsigned>(std::atoi(argv[1]));
  const std::string fault = argv[2];
  const bool no_uring = fault == "no-io-uring";
  const auto script = std::make_shared<FaultScript>();
  if (here && !no_uring) script->fail(std::stoull(fault), Fault::kIoError, DeviceOperation::kRead);
  const auto hook = [&](std::unique_ptr<IoDevice> device) { return make_faulty_device(std::move(device), script); };
  const std::function<void()> train = [&] {
    try {
      const TrainCommand command =
          parse_train_command(argc - 3, argv + 3, {ranks.local_size(), ranks.on_these_cores(), ranks.size()});
      Training(command.options, ranks, hook).run();
    } catch (const Error& error) {
      ranks.fail(fmt::format("shoal-train: {}", error.what()), error.exit_code());
    }
  };
  if (here && no_uring) {
    with_refusing_kernel(Refused::kIoUring, train);
  } else {
    train();
  }
  return 0;
}
