#include "predictors/video/rule_state.h"

#include <cmath>
#include <utility>

namespace sam_rlx {
namespace {

constexpr double kNotAdded = -1.0;
constexpr double kMaxCount = 9007199254740992.0;  // 2^53: below it a double holds any integer

bool is_count(double value) {
  return value >= 0.0 && value < kMaxCount && std::floor(value) == value;
}

}  // namespace

std::vector<double> RuleState::numbers() const {
  std::vector<double> out{static_cast<double>(stable_frames), is_off_path ? 1.0 : 0.0,
                          static_cast<double>(areas.count()),
                          last_added ? static_cast<double>(*last_added) : kNotAdded};
  for (const BoxMotion::Axis& axis : motion.axes) {
    out.insert(out.end(), {axis.position, axis.velocity, axis.position_variance, axis.covariance,
                           axis.velocity_variance});
  }
  for (const RecentAreas::Area& area : areas.areas()) {
    out.insert(out.end(), {static_cast<double>(area.number), static_cast<double>(area.pixels)});
  }
  out.resize(static_cast<std::size_t>(kNumbers), 0.0);  // no area: of 0 pixels
  return out;
}

std::optional<RuleState> RuleState::of(const double* numbers) {
  RuleState state;
  const double* next = numbers;
  const double stable = *next++, off = *next++, count = *next++, added = *next++;
  if (!is_count(stable) || (off != 0.0 && off != 1.0) || !is_count(count)) return std::nullopt;
  if (added != kNotAdded && !is_count(added)) return std::nullopt;
  state.stable_frames = static_cast<std::int64_t>(stable);
  state.is_off_path = off == 1.0;
  if (added != kNotAdded) state.last_added = static_cast<std::int64_t>(added);
  for (BoxMotion::Axis& axis : state.motion.axes) {
    axis = {next[0], next[1], next[2], next[3], next[4]};
    next += 5;
  }
  std::vector<RecentAreas::Area> areas;
  for (const double* const end = numbers + kNumbers; next < end; next += 2) {
    if (!is_count(next[0]) || !is_count(next[1])) return std::nullopt;
    if (next[1] == 0.0) continue;
    areas.push_back({static_cast<std::int64_t>(next[0]), static_cast<std::int64_t>(next[1])});
  }
  state.areas = RecentAreas(static_cast<std::int64_t>(count), std::move(areas));
  return state;
}

}  // namespace sam_rlx
