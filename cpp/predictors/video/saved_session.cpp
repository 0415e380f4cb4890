#include "predictors/video/saved_session.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/image.h"

namespace sam_rlx {
namespace {

using Entries = std::vector<std::pair<std::int64_t, const FrameOutput*>>;
using Integers = NamedTensors::Integers;
using Doubles = NamedTensors::Doubles;

// Numbers of an output, behind its name.
constexpr std::pair<const char*, float FrameOutput::*> kScores[] = {
    {".object_score_logits", &FrameOutput::object_score_logits},
    {".iou_prediction", &FrameOutput::iou_prediction},
    {".eff_iou_score", &FrameOutput::eff_iou_score},
};
constexpr std::int64_t kOfVideo = -1;  // in num_pushed

Entries by_arrival(const FrameOutputs& outputs) {
  Entries entries;
  for (const std::int64_t frame : outputs.frames_by_arrival()) {
    entries.emplace_back(frame, outputs.find(frame));
  }
  return entries;
}

Entries ascending(const FrameOutputs& outputs) {
  Entries entries;
  for (const auto& [frame, value] : outputs) entries.emplace_back(frame, value.output.get());
  return entries;
}

// `count` tensors of one shape; without any, the stack has no more axes.
Shape stack_shape(std::int64_t count, const Shape& one) {
  Shape shape{count};
  for (int axis = 0; count > 0 && axis < one.rank(); ++axis) shape.push_back(one[axis]);
  return shape;
}

// One tensor of all entries, stacked. Memory that was not encoded is written as zeros.
Tensor stacked(const Entries& entries, SharedTensor FrameOutput::* member, const Shape& one) {
  Tensor out(stack_shape(static_cast<std::int64_t>(entries.size()), one));
  float* target = out.data();
  for (const auto& [frame, output] : entries) {
    const SharedTensor& tensor = output->*member;
    if (tensor.empty()) {
      std::fill_n(target, one.numel(), 0.0F);
    } else {
      std::copy_n(tensor.data(), one.numel(), target);
    }
    target += one.numel();
  }
  return out;
}

void save_outputs(NamedTensors& out, const std::string& name, const Entries& entries,
                  const ObjectStep::OutputShapes& shapes) {
  Integers frames, has_memory, is_outdated, was_prompted;
  for (const auto& [frame, output] : entries) {
    frames.push_back(frame);
    has_memory.push_back(output->has_memory() ? 1 : 0);
    is_outdated.push_back(output->is_outdated ? 1 : 0);
    was_prompted.push_back(output->was_prompted ? 1 : 0);
    if (output->video_mask != nullptr) {
      fail<StateError>("session", "masks of prompts that tracking has read", "new ones");
    }
  }
  out.set(name + ".frames", std::move(frames));
  out.set(name + ".has_memory", std::move(has_memory));
  out.set(name + ".is_outdated", std::move(is_outdated));
  out.set(name + ".was_prompted", std::move(was_prompted));
  for (const auto& [key, member] : kScores) {
    Tensor scores({static_cast<std::int64_t>(entries.size())});
    float* score = scores.data();
    for (const auto& entry : entries) *score++ = entry.second->*member;
    out.set(name + key, std::move(scores));
  }
  out.set(name + ".maskmem_features",
          stacked(entries, &FrameOutput::maskmem_features, shapes.maskmem_features));
  out.set(name + ".obj_ptr", stacked(entries, &FrameOutput::obj_ptr, shapes.obj_ptr));
  out.set(name + ".low_res_mask",
          stacked(entries, &FrameOutput::low_res_mask, shapes.low_res_mask));
}

// What a memory rule knows after each frame, and which frames it added.
void save_rule(NamedTensors& out, const std::string& name, const Entries& entries) {
  Integers is_added, has_state;
  Doubles numbers;
  for (const auto& [frame, output] : entries) {
    is_added.push_back(output->is_added ? 1 : 0);
    has_state.push_back(output->rule_state != nullptr ? 1 : 0);
    if (output->rule_state == nullptr) continue;
    const Doubles state = output->rule_state->numbers();
    numbers.insert(numbers.end(), state.begin(), state.end());
  }
  out.set(name + ".is_added", std::move(is_added));
  out.set(name + ".has_rule_state", std::move(has_state));
  out.set(name + ".rule_states", std::move(numbers));
}

void save_prompts(NamedTensors& out, const std::string& name, const TrackedObject& object) {
  Integers frames, counts, labels, tracked, reverse;
  Doubles coords;
  for (const auto& [frame, points] : object.points) {
    frames.push_back(frame);
    counts.push_back(static_cast<std::int64_t>(points.labels.size()));
    labels.insert(labels.end(), points.labels.begin(), points.labels.end());
    coords.insert(coords.end(), points.coords.begin(), points.coords.end());
  }
  for (const auto& [frame, backward] : object.frames_tracked) {
    tracked.push_back(frame);
    reverse.push_back(backward ? 1 : 0);
  }
  out.set(name + ".points.frames", std::move(frames));
  out.set(name + ".points.counts", std::move(counts));
  out.set(name + ".points.labels", std::move(labels));
  out.set(name + ".points.coords", std::move(coords));
  out.set(name + ".mask_frames", Integers(object.mask_frames.begin(), object.mask_frames.end()));
  out.set(name + ".frames_tracked", std::move(tracked));
  out.set(name + ".frames_tracked.reverse", std::move(reverse));
}

// Which slots objects have, and what is left behind for buckets.
void save_buckets(NamedTensors& out, const SavedSession& session, const ObjectStep& step) {
  Integers slots, batches, first, ends;
  for (const SessionState::Object& object : session.objects) slots.push_back(object->slot);
  const ObjectStep::OutputShapes shapes = step.bucket_shapes();
  const auto save = [&](const std::string& name, const Entries& entries) {
    save_outputs(out, name, entries, shapes);
    out.set(name + ".image_features",
            stacked(entries, &FrameOutput::image_features, shapes.maskmem_features));
  };
  for (const SessionState::Object& bucket : session.buckets) {
    const std::string name = "buckets." + std::to_string(batches.size());
    batches.push_back(bucket->batch);
    first.push_back(bucket->slot);
    ends.push_back(bucket->end_slot);
    save(name + ".cond", by_arrival(bucket->cond_frame_outputs));
    save(name + ".non_cond", ascending(bucket->non_cond_frame_outputs));
    save(name + ".temp_cond", by_arrival(bucket->temp_cond));
  }
  out.set("slots", std::move(slots));
  out.set("buckets.batches", std::move(batches));
  out.set("buckets.slots", std::move(first));
  out.set("buckets.end_slots", std::move(ends));
}

// ---------------------------------------------------------------- back

// Handles and batches are below this: the one after it has a number too.
constexpr std::int64_t kMaxNumber = std::int64_t{1} << 53;

[[noreturn]] void refuse_array(const std::string& name, const std::string& expected,
                               const std::string& found) {
  fail<CheckpointError>("session." + name, expected, found);
}

// The array of a name, which must have the type T.
template <class T>
const T& array_at(const NamedTensors& saved, const std::string& name, const char* expected) {
  const T* const array = saved.find<T>(name);
  if (array != nullptr) return *array;
  refuse_array(name, expected, saved.arrays().contains(name) ? "other numbers" : "none");
}

void check_count(const std::string& name, std::size_t found, std::int64_t count) {
  if (count < 0 || found == static_cast<std::size_t>(count)) return;
  refuse_array(name, std::to_string(count) + " numbers", std::to_string(found));
}

template <class Values>
void check_finite(const std::string& name, const Values& values) {
  if (!std::all_of(values.begin(), values.end(), [](auto value) { return std::isfinite(value); })) {
    refuse_array(name, "finite values", "nan or infinity");
  }
}

struct Range {
  std::int64_t first = 0, end = 0;
};
constexpr Range kBit{0, 2}, kFrames{0, sam2::kMaxFrames}, kNumbers{0, kMaxNumber};

// Integers [first, end), as many as `count` says; -1: any number.
const Integers& integers_at(const NamedTensors& saved, const std::string& name, std::int64_t count,
                            Range range) {
  const Integers& values = array_at<Integers>(saved, name, "integers");
  check_count(name, values.size(), count);
  for (const std::int64_t value : values) {
    if (value >= range.first && value < range.end) continue;
    refuse_array(name, std::to_string(range.first) + " to " + std::to_string(range.end - 1),
                 std::to_string(value));
  }
  return values;
}

// The same, each once.
const Integers& distinct_at(const NamedTensors& saved, const std::string& name, Range range) {
  const Integers& values = integers_at(saved, name, -1, range);
  Integers sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    refuse_array(name, "each number once", std::to_string(*twice) + " twice");
  return values;
}

const Doubles& doubles_at(const NamedTensors& saved, const std::string& name, std::int64_t count) {
  const Doubles& values = array_at<Doubles>(saved, name, "numbers of 64 bits");
  check_count(name, values.size(), count);
  check_finite(name, values);
  return values;
}

ConstView floats_at(const NamedTensors& saved, const std::string& name, const Shape& shape) {
  const Tensor& tensor = array_at<Tensor>(saved, name, "numbers of 32 bits");
  if (tensor.shape() != shape) refuse_array(name, "shape " + shape.str(), tensor.shape().str());
  check_finite(name, std::span(tensor.data(), static_cast<std::size_t>(tensor.numel())));
  return tensor;
}

// Tensors of all entries, stacked.
class Stack {
 public:
  Stack(const NamedTensors& saved, const std::string& name, std::int64_t count, const Shape& one)
      : one_(one), data_(floats_at(saved, name, stack_shape(count, one)).data) {}
  Tensor at(std::int64_t index) const {
    return Tensor::copy_of({data_ + index * one_.numel(), one_});
  }

 private:
  Shape one_;
  const float* data_;
};

struct Reader {
  const NamedTensors& saved;
  const ObjectStep& step;

  // With `complete`, each has its memory.
  void outputs(const std::string& name, bool complete, FrameOutputs& into,
               const ObjectStep::OutputShapes& shapes) const {
    const Integers& frames = distinct_at(saved, name + ".frames", kFrames);
    const auto count = static_cast<std::int64_t>(frames.size());
    const Integers& has_memory = integers_at(saved, name + ".has_memory", count, kBit);
    const Integers& is_outdated = integers_at(saved, name + ".is_outdated", count, kBit);
    const Integers& was_prompted = integers_at(saved, name + ".was_prompted", count, kBit);
    const bool in_bucket = shapes.maskmem_features.numel() == 0;
    const Stack memory(saved, name + ".maskmem_features", count, shapes.maskmem_features);
    const Stack pointers(saved, name + ".obj_ptr", count, shapes.obj_ptr);
    const Stack masks(saved, name + ".low_res_mask", count, shapes.low_res_mask);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto k = static_cast<std::size_t>(i);
      if (complete && has_memory[k] == 0) refuse_array(name + ".has_memory", "1", "0");
      FrameOutput output;
      if (has_memory[k] != 0 && !in_bucket) output.maskmem_features = memory.at(i);
      output.is_in_bucket = has_memory[k] != 0 && in_bucket;
      output.obj_ptr = pointers.at(i);
      output.low_res_mask = masks.at(i);
      output.is_outdated = is_outdated[k] != 0;
      output.was_prompted = was_prompted[k] != 0;
      for (const auto& [key, member] : kScores) {
        output.*member = floats_at(saved, name + key, {count}).data[i];
      }
      into.set(frames[k], std::move(output));
    }
  }

  void rule(const std::string& name, FrameOutputs& into) const {
    const std::vector<std::int64_t> frames = into.frames_by_arrival();
    const auto count = static_cast<std::int64_t>(frames.size());
    const Integers& is_added = integers_at(saved, name + ".is_added", count, kBit);
    const Integers& has_state = integers_at(saved, name + ".has_rule_state", count, kBit);
    const std::int64_t states = std::count(has_state.begin(), has_state.end(), 1);
    const Doubles& numbers = doubles_at(saved, name + ".rule_states", states * RuleState::kNumbers);
    const double* next = numbers.data();
    for (std::size_t i = 0; i < frames.size(); ++i) {
      RuleStatePtr state;
      if (has_state[i] != 0) {
        const std::optional<RuleState> found = RuleState::of(next);
        if (!found) refuse_array(name + ".rule_states", "states of a memory rule", "other numbers");
        state = std::make_shared<const RuleState>(*found);
        next += RuleState::kNumbers;
      }
      into.change(frames[i], [&](FrameOutput& output) {
        output.is_added = is_added[i] != 0;
        output.rule_state = state;
      });
    }
  }

  void points(const std::string& name, TrackedObject& object) const {
    const Integers& frames = distinct_at(saved, name + ".frames", kFrames);
    const auto count = static_cast<std::int64_t>(frames.size());
    const Integers& labels = integers_at(saved, name + ".labels", -1, {-1, 4});
    const auto total = static_cast<std::int64_t>(labels.size());
    const Integers& counts = integers_at(saved, name + ".counts", count, {0, total + 1});
    const Doubles& coords = doubles_at(saved, name + ".coords", 2 * total);
    std::int64_t next = 0;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      if (counts[i] > total - next)
        refuse_array(name + ".counts", "as many points as labels", "more");
      ClickedPoints points;
      for (const std::int64_t end = next + counts[i]; next < end; ++next) {
        points.labels.push_back(static_cast<std::int32_t>(labels[static_cast<std::size_t>(next)]));
        points.coords.insert(points.coords.end(), {coords[static_cast<std::size_t>(2 * next)],
                                                   coords[static_cast<std::size_t>(2 * next + 1)]});
      }
      object.points.set(frames[i], std::move(points));
    }
    if (next != total) refuse_array(name + ".counts", "as many points as labels", "fewer");
  }

  void prompts(const std::string& name, TrackedObject& object) const {
    points(name + ".points", object);
    for (const std::int64_t frame : distinct_at(saved, name + ".mask_frames", kFrames)) {
      object.mask_frames.insert(frame);
    }
    const Integers& tracked = distinct_at(saved, name + ".frames_tracked", kFrames);
    const Integers& reverse = integers_at(saved, name + ".frames_tracked.reverse",
                                          static_cast<std::int64_t>(tracked.size()), kBit);
    for (std::size_t i = 0; i < tracked.size(); ++i) {
      object.frames_tracked.set(tracked[i], reverse[i] != 0);
    }
  }

  // What frames left behind for the slots of a batch: as outputs, with a map of each frame.
  void bucket_outputs(const std::string& name, FrameOutputs& into) const {
    outputs(name, true, into, step.bucket_shapes());
    const std::vector<std::int64_t> frames = into.frames_by_arrival();
    const auto count = static_cast<std::int64_t>(frames.size());
    const Stack images(saved, name + ".image_features", count,
                       step.bucket_shapes().maskmem_features);
    for (std::int64_t i = 0; i < count; ++i) {
      into.change(frames[static_cast<std::size_t>(i)],
                  [&](FrameOutput& output) { output.image_features = images.at(i); });
    }
  }

  std::vector<SessionState::Object> buckets() const {
    std::vector<SessionState::Object> out;
    const Integers& batches = integers_at(saved, "buckets.batches", -1, kNumbers);
    const auto count = static_cast<std::int64_t>(batches.size());
    const Integers& slots = integers_at(saved, "buckets.slots", count, kNumbers);
    const Integers& ends = integers_at(saved, "buckets.end_slots", count, kNumbers);
    const std::int64_t width = step.multiplex()->config.multiplex_count;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      if (slots[i] % width != 0 || ends[i] < slots[i] || ends[i] > slots[i] + width) {
        refuse_array("buckets.end_slots", "slots of the bucket", std::to_string(ends[i]));
      }
      TrackedObject bucket{.batch = batches[i], .slot = slots[i], .end_slot = ends[i]};
      const std::string name = "buckets." + std::to_string(i);
      bucket_outputs(name + ".cond", bucket.cond_frame_outputs);
      bucket_outputs(name + ".non_cond", bucket.non_cond_frame_outputs);
      bucket_outputs(name + ".temp_cond", bucket.temp_cond);
      out.emplace_back(std::move(bucket));
    }
    return out;
  }

  // Each object has a slot of its own, in a bucket that is there.
  void give_slots(SavedSession& session) const {
    const Integers& slots = integers_at(
        saved, "slots", static_cast<std::int64_t>(session.objects.size()), {-1, kMaxNumber});
    const std::int64_t width = step.multiplex()->config.multiplex_count;
    std::set<std::pair<std::int64_t, std::int64_t>> taken;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      TrackedObject& object = session.objects[i].write();
      object.slot = slots[i];
      if (!object.has_slot()) continue;
      const bool is_there =
          std::any_of(session.buckets.begin(), session.buckets.end(), [&](const auto& bucket) {
            return bucket->batch == object.batch && bucket->slot == slots[i] / width * width &&
                   slots[i] < bucket->end_slot;
          });
      if (!is_there || !taken.insert({object.batch, slots[i]}).second) {
        refuse_array("slots", "a slot of its own in a bucket", std::to_string(slots[i]));
      }
    }
  }

  TrackedObject object(const std::string& name) const {
    TrackedObject object{.slot = 0};
    const ObjectStep::OutputShapes shapes = step.output_shapes();
    prompts(name, object);
    outputs(name + ".cond", true, object.cond_frame_outputs, shapes);
    outputs(name + ".temp_cond", false, object.temp_cond, shapes);
    outputs(name + ".temp_non_cond", false, object.temp_non_cond, shapes);
    outputs(name + ".non_cond", true, object.non_cond_frame_outputs, shapes);
    if (!step.options().memory_rule.empty()) {
      rule(name + ".cond", object.cond_frame_outputs);
      rule(name + ".non_cond", object.non_cond_frame_outputs);
      rule(name + ".temp_cond", object.temp_cond);
      rule(name + ".temp_non_cond", object.temp_non_cond);
    }
    if (step.rules().objects == SessionRules::Objects::kBatches && !object.temp_non_cond.empty()) {
      refuse_array(name + ".temp_non_cond.frames", "none with this model", "some");
    }
    return object;
  }

  std::optional<Size> orig_hw() const {
    const Integers& hw = integers_at(saved, "orig_hw", 2, {0, kMaxImageSide + 1});
    const Size size{hw[0], hw[1]};
    if (size == Size{}) return std::nullopt;
    if (!is_image_size(size)) {
      refuse_array("orig_hw", "the size of an image",
                   std::to_string(size.height) + " x " + std::to_string(size.width));
    }
    return size;
  }
};

}  // namespace

NamedTensors to_tensors(const SavedSession& session, const ObjectStep& step) {
  NamedTensors out;
  Integers handles, batches;
  const ObjectStep::OutputShapes shapes = step.output_shapes();
  for (const SessionState::Object& object : session.objects) {
    const std::string name = std::to_string(handles.size());
    handles.push_back(object->handle);
    batches.push_back(object->batch);
    save_prompts(out, name, *object);
    const auto save = [&](const char* part, const Entries& entries) {
      save_outputs(out, name + part, entries, shapes);
      if (!step.options().memory_rule.empty()) save_rule(out, name + part, entries);
    };
    save(".cond", by_arrival(object->cond_frame_outputs));
    save(".non_cond", ascending(object->non_cond_frame_outputs));
    save(".temp_cond", by_arrival(object->temp_cond));
    save(".temp_non_cond", by_arrival(object->temp_non_cond));
  }
  out.set("handles", std::move(handles));
  out.set("batches", std::move(batches));
  if (step.multiplex() != nullptr) save_buckets(out, session, step);
  const Size size = session.orig_hw.value_or(Size{0, 0});
  out.set("orig_hw", Integers{size.height, size.width});
  out.set("num_pushed", Integers{session.num_pushed.value_or(kOfVideo)});
  return out;
}

SavedSession from_tensors(const NamedTensors& saved, const ObjectStep& step) {
  const Reader reader{saved, step};
  SavedSession session{.orig_hw = reader.orig_hw()};
  const std::int64_t pushed =
      integers_at(saved, "num_pushed", 1, {kOfVideo, sam2::kMaxFrames + 1})[0];
  if (pushed != kOfVideo) session.num_pushed = pushed;
  const Integers& handles = distinct_at(saved, "handles", kNumbers);
  const Integers& batches =
      integers_at(saved, "batches", static_cast<std::int64_t>(handles.size()), kNumbers);
  if (!session.orig_hw && !handles.empty())
    refuse_array("orig_hw", "the size of an image", "0 x 0");
  for (std::size_t i = 0; i < handles.size(); ++i) {
    TrackedObject object = reader.object(std::to_string(i));
    object.handle = handles[i];
    object.batch = batches[i];
    session.objects.emplace_back(std::move(object));
  }
  if (step.multiplex() != nullptr) {
    session.buckets = reader.buckets();
    reader.give_slots(session);
  }
  return session;
}

}  // namespace sam_rlx
