#include "bindings/video_state.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

namespace sam_rlx {
namespace {

using Entries = std::vector<std::pair<std::int64_t, const FrameOutput*>>;
using Integers = std::vector<std::int64_t>;

// Numbers of an output, behind its name.
constexpr std::pair<const char*, float FrameOutput::*> kScores[] = {
    {".object_score_logits", &FrameOutput::object_score_logits},
    {".iou_prediction", &FrameOutput::iou_prediction},
    {".eff_iou_score", &FrameOutput::eff_iou_score},
};

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

py::array_t<std::int64_t> integers(const Integers& values) {
  return py::array_t<std::int64_t>(static_cast<py::ssize_t>(values.size()), values.data());
}

// One tensor of all entries, stacked. Memory that was not encoded is written as zeros.
py::array_t<float> stacked(const Entries& entries, SharedTensor FrameOutput::* member,
                           const Shape& one) {
  Shape shape{static_cast<std::int64_t>(entries.size())};
  if (entries.empty()) return make_array<float>(shape);
  for (int axis = 0; axis < one.rank(); ++axis) shape.push_back(one[axis]);
  auto out = make_array<float>(shape);
  float* target = out.mutable_data();
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

void export_outputs(py::dict& state, const std::string& name, const Entries& entries,
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
  state[py::str(name + ".frames")] = integers(frames);
  state[py::str(name + ".has_memory")] = integers(has_memory);
  state[py::str(name + ".is_outdated")] = integers(is_outdated);
  state[py::str(name + ".was_prompted")] = integers(was_prompted);
  for (const auto& [key, member] : kScores) {
    auto scores = make_array<float>({static_cast<std::int64_t>(entries.size())});
    float* score = scores.mutable_data();
    for (const auto& entry : entries) *score++ = entry.second->*member;
    state[py::str(name + key)] = scores;
  }
  state[py::str(name + ".maskmem_features")] =
      stacked(entries, &FrameOutput::maskmem_features, shapes.maskmem_features);
  state[py::str(name + ".obj_ptr")] = stacked(entries, &FrameOutput::obj_ptr, shapes.obj_ptr);
  state[py::str(name + ".low_res_mask")] =
      stacked(entries, &FrameOutput::low_res_mask, shapes.low_res_mask);
}

void export_prompts(py::dict& state, const std::string& name, const TrackedObject& object) {
  Integers frames, counts, labels, tracked, reverse;
  std::vector<double> coords;
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
  state[py::str(name + ".points.frames")] = integers(frames);
  state[py::str(name + ".points.counts")] = integers(counts);
  state[py::str(name + ".points.labels")] = integers(labels);
  state[py::str(name + ".points.coords")] =
      py::array_t<double>(static_cast<py::ssize_t>(coords.size()), coords.data());
  state[py::str(name + ".mask_frames")] =
      integers({object.mask_frames.begin(), object.mask_frames.end()});
  state[py::str(name + ".frames_tracked")] = integers(tracked);
  state[py::str(name + ".frames_tracked.reverse")] = integers(reverse);
}

// ---------------------------------------------------------------- back

// Handles and batches are below this: the one after it has a number too.
constexpr std::int64_t kMaxNumber = std::int64_t{1} << 53;

[[noreturn]] void refuse(const std::string& name, const std::string& expected,
                         const std::string& found) {
  fail<CheckpointError>("session." + name, expected, found);
}

// An array of these kinds of NumPy's, and of this shape; -1: any length.
py::array array_at(const py::dict& state, const std::string& name, const char* kinds,
                   const Shape& shape) {
  if (!state.contains(name)) refuse(name, "an array", "none");
  const py::object value = state[py::str(name)];
  if (!py::isinstance<py::array>(value)) refuse(name, "an array", "something else");
  const auto array = py::reinterpret_borrow<py::array>(value);
  if (std::strchr(kinds, array.dtype().kind()) == nullptr) {
    refuse(name, std::string("numbers of kind ") + kinds, py::str(array.dtype()));
  }
  bool fits = array.ndim() == shape.rank();
  for (int axis = 0; fits && axis < shape.rank(); ++axis) {
    fits = shape[axis] == -1 || shape[axis] == array.shape(axis);
  }
  if (!fits) refuse(name, "shape " + shape.str(), py::str(array.attr("shape")));
  return array;
}

struct Range {
  std::int64_t first = 0, end = 0;
};
constexpr Range kBit{0, 2}, kFrames{0, sam2::kMaxFrames}, kNumbers{0, kMaxNumber};

// Integers [first, end), as many as `count` says; -1: any number.
Integers integers_at(const py::dict& state, const std::string& name, std::int64_t count,
                     Range range) {
  const py::array found = array_at(state, name, "iub", {count});
  const auto array = Array<std::int64_t>::ensure(found);
  if (!array) throw py::error_already_set();
  const bool is_large = found.dtype().kind() == 'u' && found.itemsize() == 8;
  for (py::ssize_t i = 0; i < array.size(); ++i) {
    const std::int64_t value = array.data()[i];
    if (value >= range.first && value < range.end && !(is_large && value < 0)) continue;
    refuse(name, std::to_string(range.first) + " to " + std::to_string(range.end - 1),
           std::to_string(value));
  }
  return {array.data(), array.data() + array.size()};
}

// The same, each once.
Integers distinct_at(const py::dict& state, const std::string& name, Range range) {
  Integers values = integers_at(state, name, -1, range);
  Integers sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) refuse(name, "each number once", std::to_string(*twice) + " twice");
  return values;
}

template <class T>
Array<T> floats_at(const py::dict& state, const std::string& name, const Shape& shape) {
  const auto array = Array<T>::ensure(array_at(state, name, "f", shape));
  if (!array) throw py::error_already_set();
  if (!std::all_of(array.data(), array.data() + array.size(),
                   [](T value) { return std::isfinite(value); })) {
    refuse(name, "finite values", "nan or infinity");
  }
  return array;
}

// Tensors of all entries, stacked.
class Stack {
 public:
  Stack(const py::dict& state, const std::string& name, std::int64_t count, const Shape& one)
      : one_(one) {
    Shape shape{count};
    if (count > 0) {  // without an entry, the array has no more axes
      for (int axis = 0; axis < one.rank(); ++axis) shape.push_back(one[axis]);
    }
    array_ = floats_at<float>(state, name, shape);
  }
  Tensor at(std::int64_t index) const {
    return Tensor::copy_of({array_.data() + index * one_.numel(), one_});
  }

 private:
  Shape one_;
  Array<float> array_;
};

struct Importer {
  const TrackedObjects& objects;
  const py::dict& state;

  // With `complete`, each has its memory.
  void outputs(const std::string& name, bool complete, FrameOutputs& into) const {
    const Integers frames = distinct_at(state, name + ".frames", kFrames);
    const auto count = static_cast<std::int64_t>(frames.size());
    const Integers has_memory = integers_at(state, name + ".has_memory", count, kBit);
    const Integers is_outdated = integers_at(state, name + ".is_outdated", count, kBit);
    const Integers was_prompted = integers_at(state, name + ".was_prompted", count, kBit);
    const ObjectStep::OutputShapes shapes = objects.step().output_shapes();
    const Stack memory(state, name + ".maskmem_features", count, shapes.maskmem_features);
    const Stack pointers(state, name + ".obj_ptr", count, shapes.obj_ptr);
    const Stack masks(state, name + ".low_res_mask", count, shapes.low_res_mask);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto k = static_cast<std::size_t>(i);
      if (complete && has_memory[k] == 0) refuse(name + ".has_memory", "1", "0");
      FrameOutput output;
      if (has_memory[k] != 0) output.maskmem_features = memory.at(i);
      output.obj_ptr = pointers.at(i);
      output.low_res_mask = masks.at(i);
      output.is_outdated = is_outdated[k] != 0;
      output.was_prompted = was_prompted[k] != 0;
      for (const auto& [key, member] : kScores) {
        output.*member = floats_at<float>(state, name + key, {count}).data()[i];
      }
      into.set(frames[k], std::move(output));
    }
  }

  void points(const std::string& name, TrackedObject& object) const {
    const Integers frames = distinct_at(state, name + ".frames", kFrames);
    const auto count = static_cast<std::int64_t>(frames.size());
    const Integers labels = integers_at(state, name + ".labels", -1, {-1, 4});
    const auto total = static_cast<std::int64_t>(labels.size());
    const Integers counts = integers_at(state, name + ".counts", count, {0, total + 1});
    const auto coords = floats_at<double>(state, name + ".coords", {2 * total});
    std::int64_t next = 0;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      if (counts[i] > total - next) refuse(name + ".counts", "as many points as labels", "more");
      ClickedPoints points;
      for (const std::int64_t end = next + counts[i]; next < end; ++next) {
        points.labels.push_back(static_cast<std::int32_t>(labels[static_cast<std::size_t>(next)]));
        points.coords.insert(points.coords.end(),
                             {coords.data()[2 * next], coords.data()[2 * next + 1]});
      }
      object.points.set(frames[i], std::move(points));
    }
    if (next != total) refuse(name + ".counts", "as many points as labels", "fewer");
  }

  void prompts(const std::string& name, TrackedObject& object) const {
    points(name + ".points", object);
    for (const std::int64_t frame : distinct_at(state, name + ".mask_frames", kFrames)) {
      object.mask_frames.insert(frame);
    }
    const Integers tracked = distinct_at(state, name + ".frames_tracked", kFrames);
    const Integers reverse = integers_at(state, name + ".frames_tracked.reverse",
                                         static_cast<std::int64_t>(tracked.size()), kBit);
    for (std::size_t i = 0; i < tracked.size(); ++i) {
      object.frames_tracked.set(tracked[i], reverse[i] != 0);
    }
  }

  TrackedObject object(const std::string& name) const {
    TrackedObject object;
    prompts(name, object);
    outputs(name + ".cond", true, object.cond_frame_outputs);
    outputs(name + ".temp_cond", false, object.temp_cond);
    outputs(name + ".temp_non_cond", false, object.temp_non_cond);
    outputs(name + ".non_cond", true, object.non_cond_frame_outputs);
    if (objects.step().rules().objects == SessionRules::Objects::kBatches &&
        !object.temp_non_cond.empty()) {
      refuse(name + ".temp_non_cond.frames", "none with this model", "some");
    }
    return object;
  }

  std::optional<Size> orig_hw() const {
    const Integers hw = integers_at(state, "orig_hw", 2, {0, kMaxImageSide + 1});
    const Size size{hw[0], hw[1]};
    if (size == Size{}) return std::nullopt;
    if (!is_image_size(size)) {
      refuse("orig_hw", "the size of an image",
             std::to_string(size.height) + " x " + std::to_string(size.width));
    }
    return size;
  }
};

}  // namespace

py::dict export_video_state(NamedSession& names) {
  return names.call([&](VideoSession& session) {
    if (!session.texts().empty()) {
      fail<UnsupportedError>("save", "a session without texts", "one with");
    }
    const TrackedObjects& objects = session.objects();
    if (!objects.objects().empty()) {
      const GilRelease release;
      session.prepare();
    }
    py::dict state;
    py::list obj_ids;
    Integers handles, batches;
    const ObjectStep::OutputShapes shapes = objects.step().output_shapes();
    for (const auto& object : objects.objects()) {
      const std::string name = std::to_string(handles.size());
      obj_ids.append(names.name_of(object->handle));
      handles.push_back(object->handle);
      batches.push_back(object->batch);
      export_prompts(state, name, *object);
      export_outputs(state, name + ".cond", by_arrival(object->cond_frame_outputs), shapes);
      export_outputs(state, name + ".non_cond", ascending(object->non_cond_frame_outputs), shapes);
      export_outputs(state, name + ".temp_cond", by_arrival(object->temp_cond), shapes);
      export_outputs(state, name + ".temp_non_cond", by_arrival(object->temp_non_cond), shapes);
    }
    state["handles"] = integers(handles);
    state["batches"] = integers(batches);
    const Size size = objects.orig_hw().value_or(Size{0, 0});
    state["orig_hw"] = integers({size.height, size.width});
    state["obj_ids"] = obj_ids;
    return state;
  });
}

void import_video_state(NamedSession& names, const py::dict& state, const py::list& obj_ids,
                        const std::vector<std::string>& labels, std::int64_t num_pushed) {
  names.call([&](VideoSession& session) {
    const Importer importer{session.objects(), state};
    const std::optional<Size> orig_hw = importer.orig_hw();
    const Integers handles = distinct_at(state, "handles", kNumbers);
    const Integers batches =
        integers_at(state, "batches", static_cast<std::int64_t>(handles.size()), kNumbers);
    if (!orig_hw && !handles.empty()) refuse("orig_hw", "the size of an image", "0 x 0");
    if (obj_ids.size() != handles.size() || labels.size() != handles.size()) {
      refuse("obj_ids", "one for each object", std::to_string(obj_ids.size()));
    }
    std::vector<SessionState::Object> objects;
    NamedSession::Names named;
    for (std::size_t i = 0; i < handles.size(); ++i) {
      TrackedObject object = importer.object(std::to_string(i));
      object.handle = handles[i];
      object.batch = batches[i];
      objects.emplace_back(std::move(object));
      named[handles[i]] = obj_ids[i];
    }
    session.adopt(std::move(objects), orig_hw, num_pushed);
    for (std::size_t i = 0; i < handles.size(); ++i) session.set_label(handles[i], labels[i]);
    names.adopt(std::move(named));
  });
}

}  // namespace sam_rlx
