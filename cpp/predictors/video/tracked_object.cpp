#include "predictors/video/tracked_object.h"

#include <algorithm>

namespace sam_rlx {

FrameOutput* OrderedOutputs::find(std::int64_t frame) const {
  for (const auto& [key, output] : entries_) {
    if (key == frame) return output.get();
  }
  return nullptr;
}

void OrderedOutputs::set(std::int64_t frame, FrameOutputPtr output) {
  for (auto& [key, current] : entries_) {
    if (key != frame) continue;
    current = std::move(output);
    return;
  }
  entries_.emplace_back(frame, std::move(output));
}

FrameOutputPtr OrderedOutputs::take(std::int64_t frame) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const auto& entry) { return entry.first == frame; });
  if (found == entries_.end()) return nullptr;
  FrameOutputPtr output = std::move(found->second);
  entries_.erase(found);
  return output;
}

void OrderedOutputs::sort() {
  std::sort(entries_.begin(), entries_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
}

FrameOutput* TrackedObject::tracked_output(std::int64_t frame) const {
  if (FrameOutput* const output = cond_frame_outputs.find(frame)) return output;
  const auto found = non_cond_frame_outputs.find(frame);
  return found == non_cond_frame_outputs.end() ? nullptr : found->second.get();
}

FrameOutput* TrackedObject::latest_output(std::int64_t frame, bool is_cond) const {
  const OrderedOutputs& prompted = is_cond ? temp_cond : temp_non_cond;
  if (FrameOutput* const output = prompted.find(frame)) return output;
  return tracked_output(frame);
}

void TrackedObject::clear_prompts(std::int64_t frame) {
  points.erase(frame);
  mask_frames.erase(frame);
  temp_cond.take(frame);
  temp_non_cond.take(frame);
}

void TrackedObject::downgrade(std::int64_t frame) {
  if (FrameOutputPtr output = cond_frame_outputs.take(frame)) {
    output->was_prompted = true;
    non_cond_frame_outputs[frame] = std::move(output);
    frames_tracked.erase(frame);
  }
}

std::vector<std::int64_t> TrackedObject::cond_frames() const {
  std::vector<std::int64_t> frames;
  for (const auto& entry : cond_frame_outputs) frames.push_back(entry.first);
  return frames;
}

std::vector<std::int64_t> TrackedObject::non_cond_frames() const {
  std::vector<std::int64_t> frames;
  for (const auto& entry : non_cond_frame_outputs) frames.push_back(entry.first);
  return frames;
}

}  // namespace sam_rlx
