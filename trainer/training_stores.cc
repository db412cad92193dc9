// Which stores a run begins with, and what becomes of those it no longer needs.
//
// First all that will be read, replaced or deleted is looked at, on every rank; then stores.json says what is about to
// be; only then is anything changed. Whenever the run is killed, stores.json names the stores that have its nodes, and
// those that may be deleted.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "store/error.h"
#include "store/store_files.h"
#include "trainer/checkpoint_note.h"
#include "trainer/content_hash.h"
#include "trainer/found_store.h"
#include "trainer/split.h"
#include "trainer/training.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A damaged manifest has no id, so it is nobody's.
std::optional<std::uint64_t> readable_id_in(const fs::path& directory) {
  try {
    return store_id_in(directory);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

void Training::choose_stores() {
  const std::optional<RunStores> listed = listed_stores();
  had_run_ = options_.resume && listed;
  if (listed) obsolete_ = listed->obsolete;
  if (!options_.resume) {
    choose_new_store(listed.value_or(RunStores{}));
  } else if (!listed) {
    choose_store_of(nullptr);
  } else if (listed->current.empty()) {
    throw Error(fmt::format("--resume: the run in {} has kept no store: it ran without --checkpoint-every",
                            options_.out.string()),
                ExitCode::kUsage);
  } else if (listed->current.size() == ranks_.size()) {
    choose_store_of(&listed->current[ranks_.rank()]);
  } else {
    choose_move(*listed);
  }
  places_ = all_places(place_, ranks_);
}

// As stores.json has them; nothing where there is none.
std::optional<RunStores> Training::listed_stores() {
  std::string text;
  if (ranks_.first()) {
    try {
      if (const auto listed = RunStores::read(options_.out)) text = listed->text({});
    } catch (const Error&) {
      if (!options_.overwrite) throw;
    }
  }
  text = text_of(ranks_.broadcast(bytes_of(text)));
  if (text.empty()) return std::nullopt;
  return RunStores::parse(text, {});
}

void Training::choose_new_store(const RunStores& listed) {
  StateStore::require_free(requirements_.store);
  StorePlace old = place_;
  place_.id = new_store_id();
  if (!options_.overwrite) return;
  // What is deleted is the run that is there, and what lies where the new one will; but no store that has become
  // another run's.
  std::vector<StorePlace> all = listed.current;
  all.insert(all.end(), listed.obsolete.begin(), listed.obsolete.end());
  std::vector<std::int64_t> kept(all.size(), 0);
  for (std::size_t i = 0; i < all.size() && ranks_.host_leader() == ranks_.rank(); ++i) {
    const bool there = readable_id_in(all[i].store) == all[i].id;
    kept[i] = there && !other_owner(all[i], options_.out).empty() ? 1 : 0;
  }
  ranks_.sum(kept);
  obsolete_.clear();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (kept[i] == 0) obsolete_.push_back(all[i]);
  }
  old.id = readable_id_in(old.store).value_or(0);
  if (const fs::path owner = other_owner(old, options_.out); !owner.empty()) {
    throw Error(fmt::format("--overwrite: the store in {} is of the run in {}; choose another --store",
                            old.store.string(), owner.string()),
                ExitCode::kUsage);
  }
  for (const StorePlace& place : all_places(old, ranks_)) {
    if (place.id != 0) obsolete_.push_back(place);
  }
}

// The rank's own store, as it was. `listed` is null where the results go on in a folder that knows of no run yet.
void Training::choose_store_of(const StorePlace* listed) {
  const std::optional<FoundStore> found = find_store(place_);
  if (!found && listed == nullptr) {
    throw Error(fmt::format("--resume: there is no run in {}, and no store in {}; give the run's --out, or its --store",
                            options_.out.string(), place_.store.string()),
                ExitCode::kUsage);
  }
  if (!found && half_store_in(place_.store)) throw no_checkpoint();
  if (!found) {
    throw Error(fmt::format(
        "--resume: there is no store in {}; that of the run in {} {}", place_.store.string(), options_.out.string(),
        listed->store == place_.store ? "was there, and is gone"
                                      : fmt::format("was in {}: give its --store", listed->store.string())));
  }
  if (listed != nullptr && found->place.id != listed->id) {
    throw Error(
        fmt::format("--resume: the store in {} is another run's: its id is {:016x}, and that of the run in {} {:016x}",
                    place_.store.string(), found->place.id, options_.out.string(), listed->id));
  }
  place_ = found->place;
  agree_on_checkpoint({*found}, share_);
}

// The run had another number of ranks: every rank takes its nodes from the stores that had them.
void Training::choose_move(const RunStores& listed) {
  former_ = listed.current;
  std::vector<FoundStore> found;
  for (std::size_t rank = 0; rank < former_.size(); ++rank) {
    const StorePlace& place = former_[rank];
    std::optional<FoundStore> each = find_store(place);
    if (!each && half_store_in(place.store)) throw no_checkpoint();
    if (!each) {
      throw Error(
          fmt::format("--resume: the run had {} ranks and now has {}, so its nodes are moved; but the store of "
                      "its rank {} is not there: {}. Make it readable on {}, or start {} ranks",
                      former_.size(), ranks_.size(), rank, place.store.string(), ranks_.host(), former_.size()));
    }
    if (each->place.id != place.id) {
      throw Error(
          fmt::format("--resume: the store in {} is another run's: its id is {:016x}, and that of the run in {} "
                      "{:016x}",
                      place.store.string(), each->place.id, options_.out.string(), place.id));
    }
    found.push_back(std::move(*each));
  }
  const auto ranks = static_cast<unsigned>(former_.size());
  former_share_ = is_split(experiment_, ranks)
                      ? std::make_unique<Share>(experiment_.graph(), partition_for(experiment_, ranks), 0)
                      : std::make_unique<Share>(experiment_.algorithm->records());
  agree_on_checkpoint(found, *former_share_);

  StorePlace old = place_;
  old.id = store_id_in(place_.store).value_or(0);
  if (old.id == 0) StateStore::require_free(requirements_.store);
  if (old.id != 0 && !listed.is_obsolete(old)) {
    throw Error(
        fmt::format("--resume: the nodes are to move to {}, but the store there is not of the run in {}; choose "
                    "another --store",
                    place_.store.string(), options_.out.string()),
        ExitCode::kUsage);
  }
  place_.id = new_store_id();
}

// A checkpoint is one that all stores have, and the first one's is made last.
void Training::agree_on_checkpoint(const std::vector<FoundStore>& found, const Share& share) {
  std::string epoch;
  if (ranks_.first()) {
    const CheckpointInfo& last = found.front().checkpoints.back();
    if (last.note.empty()) throw no_checkpoint();
    epoch = std::to_string(last.epoch);
  }
  epoch_ = std::stoull(text_of(ranks_.broadcast(bytes_of(epoch))));
  CheckpointNote now = note(0);
  now.owners = owners_hash(share, options_.nodes);
  std::vector<std::uint64_t> rounds;
  for (const FoundStore& each : found) {
    const CheckpointInfo* const info = each.at(epoch_);
    if (info == nullptr || info->note.empty()) {
      throw Error(
          fmt::format("--resume: the store in {} has no checkpoint {}, which that of rank 0 has; they are not "
                      "of one run",
                      each.place.store.string(), epoch_));
    }
    const CheckpointNote then = CheckpointNote::parse(info->note);
    then.require_same(now);
    rounds.push_back(then.rounds_done);
  }
  const auto most = static_cast<std::int64_t>(*std::max_element(rounds.begin(), rounds.end()));
  const auto least = static_cast<std::int64_t>(*std::min_element(rounds.begin(), rounds.end()));
  if (ranks_.least(least) != -ranks_.least(-most)) {
    throw Error(fmt::format(
        "--resume: checkpoint {} is of different rounds in the ranks' stores; they are not of one run", epoch_));
  }
  rounds_done_ = rounds.front();
  if (rounds_done_ > options_.rounds) {
    throw Error(fmt::format("--rounds {}: the checkpoint has {} rounds already", options_.rounds, rounds_done_),
                ExitCode::kUsage);
  }
  if (ranks_.first()) former_out_ = other_owner(found.front().place, options_.out);
}

Error Training::no_checkpoint() const {
  return Error(
      fmt::format("--resume: the run in {} was ended before its first checkpoint; start it again with "
                  "--overwrite",
                  options_.out.string()));
}

// All ranks can start. From here on something is changed.
void Training::take_stores() {
  ranks_.barrier();
  on_all_ranks([&] {
    if (ranks_.first()) open_files();
  });
  remove_stores(obsolete_);
  on_all_ranks([&] {
    StoreOptions& options = requirements_.store;
    options.id = place_.id;
    if (options_.resume && !moving()) {
      options.open_epoch = epoch_;
      store_ = StateStore::open(options);
      return;
    }
    remember_new_folders(place_.store);
    if (!place_.cold.empty()) remember_new_folders(place_.cold);
    store_ = StateStore::create(options);
    made_store_ = true;
  });
}

// On rank 0.
void Training::open_files() {
  remember_new_folders(options_.out);
  files_ = std::make_unique<RunFiles>(options_.out);
  if (!options_.resume) {
    write_stores({places_, obsolete_});
    files_->remove_results();
    files_->begin_metrics();
  } else if (moving()) {
    RunStores stores{former_, obsolete_};
    stores.obsolete.insert(stores.obsolete.end(), places_.begin(), places_.end());
    write_stores(stores);
  }
}

void Training::write_stores(const RunStores& stores) { files_->write(RunStores::kFile, stores.text(options_.out)); }

// All ranks do it, or none: what the others have made would stand in the way of the next attempt. `work` does not speak
// to other ranks.
void Training::on_all_ranks(const std::function<void()>& work) {
  std::exception_ptr error;
  try {
    work();
  } catch (...) {
    error = std::current_exception();
  }
  std::int64_t failures = error ? 1 : 0;
  ranks_.sum(std::span(&failures, 1));
  if (failures == 0) return;
  undo_start();
  ranks_.barrier();
  if (error) std::rethrow_exception(error);
  ranks_.barrier();  // nobody comes: the rank that failed ends all of them
}

void Training::remember_new_folders(fs::path folder) {
  std::error_code unreadable;
  for (folder = fs::absolute(folder).lexically_normal(); !fs::exists(folder, unreadable);
       folder = folder.parent_path()) {
    if (unreadable || folder == folder.parent_path()) return;
    new_folders_.push_back(folder);
  }
}

void Training::remove_new_folders() {
  // Inner ones have longer names.
  std::sort(new_folders_.begin(), new_folders_.end(),
            [](const fs::path& left, const fs::path& right) { return left.native().size() > right.native().size(); });
  for (const fs::path& folder : std::exchange(new_folders_, {})) remove_if_empty(folder);
}

// What a start that fails has made. The folder of a run that is resumed stays as it is: stores.json lists what is worth
// nothing.
void Training::undo_start() {
  pipeline_.reset();
  store_.reset();
  try {
    if (std::exchange(made_store_, false)) StateStore::remove(place_.options());
    if (files_ && !had_run_) files_->remove_everything();
  } catch (const std::exception&) {
    // It must not hide why the run could not start.
  }
  files_.reset();
  remove_new_folders();
}

// Those that are there and have the ids they should have. Ranks of one host see the same folders, and hosts may.
void Training::remove_stores(const std::vector<StorePlace>& places) {
  for (unsigned turn = 0; turn < ranks_.size(); ++turn) {
    if (turn == ranks_.rank() && turn == ranks_.host_leader()) {
      for (const StorePlace& place : places) {
        if (readable_id_in(place.store) == place.id) StateStore::remove(place.options());
      }
    }
    ranks_.barrier();
  }
}

void Training::move_nodes() {
  std::vector<StoreOptions> former;
  for (const StorePlace& place : former_) {
    former.push_back(place.options());
    former.back().open_epoch = epoch_;
  }
  progress_.begin(fmt::format("moving nodes from {} to {} ranks", former_.size(), ranks_.size()),
                  requirements_.records);
  MoveWork work(*experiment_.layout, share_, *former_share_, former, progress_);
  store_->plan(over_all(StepKind::kCreate));
  totals_.lower_bound += pipeline_->run(work).lower_bound_bytes;
  progress_.end();
}

// The nodes are durable in their new places: from now on those are the run's.
void Training::leave_former_stores() {
  made_store_ = false;
  const bool others_need_them = ranks_.least(former_out_.empty() ? 0 : -1) < 0;
  if (others_need_them && ranks_.first()) {
    progress_.say(fmt::format("the stores that the nodes were moved from stay: the run in {} has them too",
                              former_out_.string()));
  }
  obsolete_ = others_need_them ? std::vector<StorePlace>() : former_;
  if (ranks_.first()) write_stores({places_, obsolete_});
  ranks_.barrier();
  remove_stores(obsolete_);
  former_.clear();
}

// At the end of a run that makes no checkpoints: nobody could go on from them.
void Training::discard_stores() {
  pipeline_.reset();
  store_.reset();
  if (ranks_.first()) write_stores({{}, places_});
  ranks_.barrier();
  StateStore::remove(place_.options());
  ranks_.barrier();
  if (ranks_.first()) write_stores({});
}

}  // namespace shoal
