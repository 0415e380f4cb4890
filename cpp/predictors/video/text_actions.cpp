#include "predictors/video/text_actions.h"

#include <set>

namespace sam_rlx {
namespace {

bool runs_frames(const TextAction& action) {
  return action.kind == TextAction::Kind::kPropagate && action.work != TextWork::Kind::kShow;
}

// The propagation that follows on one that ran frames.
TextWork after_frames(const std::vector<TextAction>& actions,
                      std::optional<std::int64_t> num_frames) {
  const TextAction& last = actions.back();
  const bool twice = actions.size() > 1 && runs_frames(actions[actions.size() - 2]);
  const bool at_an_end =
      last.frame && (*last.frame == 0 || (num_frames && *last.frame == *num_frames - 1));
  if (twice || at_an_end) return {.kind = TextWork::Kind::kShow};
  return {.kind = last.work, .handles = last.handles};
}

}  // namespace

TextWork next_text_work(const std::vector<TextAction>& actions,
                        std::optional<std::int64_t> num_frames) {
  if (actions.empty()) return {.kind = TextWork::Kind::kSearch};
  if (runs_frames(actions.back())) return after_frames(actions, num_frames);
  std::set<std::int64_t> clicked;
  for (auto action = actions.rbegin(); action != actions.rend(); ++action) {
    if (action->kind == TextAction::Kind::kPropagate) break;
    if (action->kind == TextAction::Kind::kRemove) continue;
    clicked.insert(action->handles.begin(), action->handles.end());
  }
  if (clicked.empty()) return {.kind = TextWork::Kind::kShow};
  return {.kind = TextWork::Kind::kRefined, .handles = {clicked.begin(), clicked.end()}};
}

}  // namespace sam_rlx
