#include "predictors/video/tracked_object.h"

#include <algorithm>

namespace sam_rlx {

void FrameOutputs::set(std::int64_t frame, FrameOutputPtr output) {
  const Arrived* const before = outputs_.find(frame);
  const std::int64_t arrival = before == nullptr ? next_arrival_++ : before->arrival;
  outputs_.set(frame, {std::move(output), arrival});
}

FrameOutputPtr FrameOutputs::take(std::int64_t frame) {
  Arrived* const found = outputs_.find(frame);
  if (found == nullptr) return nullptr;
  FrameOutputPtr output = std::move(found->output);
  outputs_.erase(frame);
  return output;
}

std::vector<std::int64_t> FrameOutputs::frames_by_arrival() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> arrivals;
  for (const auto& [frame, value] : outputs_) arrivals.emplace_back(value.arrival, frame);
  std::sort(arrivals.begin(), arrivals.end());
  std::vector<std::int64_t> frames;
  for (const auto& entry : arrivals) frames.push_back(entry.second);
  return frames;
}

const FrameOutput* TrackedObject::tracked_output(std::int64_t frame) const {
  if (const FrameOutput* const output = cond_frame_outputs.find(frame)) return output;
  return non_cond_frame_outputs.find(frame);
}

const FrameOutput* TrackedObject::latest_output(std::int64_t frame, bool is_cond) const {
  const FrameOutputs& prompted = is_cond ? temp_cond : temp_non_cond;
  if (const FrameOutput* const output = prompted.find(frame)) return output;
  return tracked_output(frame);
}

FrameSet TrackedObject::prompted_frames() const {
  FrameSet frames = mask_frames;
  for (const auto& entry : points) frames.insert(entry.frame);
  return frames;
}

void TrackedObject::clear_prompts(std::int64_t frame) {
  points.erase(frame);
  mask_frames.erase(frame);
  temp_cond.erase(frame);
  temp_non_cond.erase(frame);
}

void TrackedObject::downgrade(std::int64_t frame) {
  if (const FrameOutputPtr output = cond_frame_outputs.take(frame)) {
    FrameOutput tracked = *output;
    tracked.was_prompted = true;
    non_cond_frame_outputs.set(frame, std::move(tracked));
    frames_tracked.erase(frame);
  }
}

void TrackedObject::forget_added(std::int64_t frame, bool reverse) {
  for (const std::int64_t t : cond_frame_outputs.frames_by_arrival()) {
    if ((reverse ? t > frame : t < frame) || keeps_output(t)) continue;
    FrameOutput tracked = *cond_frame_outputs.take(t);
    tracked.is_added = false;
    non_cond_frame_outputs.set(t, std::move(tracked));
  }
}

}  // namespace sam_rlx
