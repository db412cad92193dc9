#include "planner/plan_text.h"

#include <fmt/format.h>

#include "planner/whole.h"
#include "store/size_text.h"

namespace shoal {
namespace {

std::string head(const RunPlan& plan) {
  const RunDescription& run = plan.run;
  std::string text = fmt::format("{} nodes, {} ({} parameters), {} with {}, {}, {} rounds, {} {}\n", run.nodes,
                                 run.model, run.parameters, run.algorithm, run.optimizer, run.graph, run.rounds,
                                 run.threads, run.threads == 1 ? "thread" : "threads");
  if (plan.machine.ranks > 1) {
    text += fmt::format("{} ranks on {} {}; figures are one rank's, with {:.0f} records\n", plan.machine.ranks,
                        plan.machine.hosts, plan.machine.hosts == 1 ? "host" : "hosts", plan.mean_records);
    if (run.split) {
      text += fmt::format("{} of {} edges join nodes of different ranks; rank 0 reads {} nodes of others\n",
                          run.cut_edges, run.edges, run.guests());
    }
  } else if (run.records() != run.nodes) {
    text += fmt::format("{} record for all nodes\n", run.records());
  }
  return text + fmt::format("--ram {}, at least {}\n", size_text(run.ram_bytes), size_text(run.least_ram_bytes));
}

std::string verdict(const RunPlan& plan) {
  if (!plan.fits()) {
    std::string text = "It does not fit.\n";
    for (const Misfit& misfit : plan.misfits) text += fmt::format("  {}\n", misfit_text(misfit));
    return text;
  }
  std::string disks;
  for (const SharedDisk& disk : plan.disks) {
    disks +=
        fmt::format("{}{} of disk of the {} that are free{}", disks.empty() ? "" : ", ", size_text(disk.needed_bytes),
                    size_text(disk.available_bytes), plan.disks.size() > 1 ? " in " + disk.folder : "");
  }
  const Residency& residency = plan.residency;
  if (residency.round.bytes_read + residency.round.bytes_written == 0) {
    disks += "; rounds touch no disk";
    if (residency.checkpoint_bytes_written > 0) {
      disks += fmt::format(", a checkpoint writes {}", size_text(whole(residency.checkpoint_bytes_written)));
    }
  }
  return fmt::format("It fits: {}.\n", disks);
}

}  // namespace

std::string misfit_text(const Misfit& misfit) {
  return fmt::format("{}{}: {} are needed and {} are there, {} too little", misfit.what,
                     misfit.where.empty() ? "" : " of " + misfit.where, size_text(misfit.needed),
                     size_text(misfit.available), size_text(misfit.needed - misfit.available));
}

std::string plan_text(const RunPlan& plan, const Advice& advice, Formulas formulas) {
  std::string text = head(plan) + verdict(plan);
  const auto add_notes = [&](const std::vector<std::string>& notes) {
    for (const std::string& note : notes) text += fmt::format("  {}\n", note);
  };
  for (const PlanSection& section : plan_sections(plan)) {
    text += fmt::format("\n{}\n", section.title);
    for (const PlanLine& line : section.lines) {
      text += fmt::format("  {:<28}{:>14}", line.label, figure_text(line.value, line.unit));
      if (formulas == Formulas::kShown) text += "   " + line.formula;
      text += "\n";
    }
    add_notes(section.notes);
  }
  if (!advice.lines.empty()) text += "\nadvice\n";
  add_notes(advice.lines);
  if (!advice.changes.empty()) text += "\nany of these would make it fit\n";
  add_notes(advice.changes);
  return text;
}

}  // namespace shoal
