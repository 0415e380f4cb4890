#include "bindings/video_state.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

namespace sam_rlx {
namespace {

using Entries = std::vector<std::pair<std::int64_t, FrameOutput*>>;
using Integers = std::vector<std::int64_t>;

// Numbers of an output, behind its name.
constexpr std::pair<const char*, float FrameOutput::*> kScores[] = {
    {".object_score_logits", &FrameOutput::object_score_logits},
    {".iou_prediction", &FrameOutput::iou_prediction},
    {".eff_iou_score", &FrameOutput::eff_iou_score},
};

template <class Container>
Entries entries_of(const Container& outputs) {
  Entries entries;
  for (const auto& [frame, output] : outputs) entries.emplace_back(frame, output.get());
  return entries;
}

py::array_t<std::int64_t> integers(const Integers& values) {
  return py::array_t<std::int64_t>(static_cast<py::ssize_t>(values.size()), values.data());
}

// One tensor of all entries, stacked. Undefined memory is written as zeros.
py::array_t<float> stacked(const Entries& entries, Tensor FrameOutput::* member) {
  Shape shape{static_cast<std::int64_t>(entries.size())};
  if (entries.empty()) return make_array<float>(shape);
  const Shape one = (entries.front().second->*member).shape();
  for (int axis = 0; axis < one.rank(); ++axis) shape.push_back(one[axis]);
  auto out = make_array<float>(shape);
  float* target = out.mutable_data();
  for (const auto& [frame, output] : entries) {
    const Tensor& tensor = output->*member;
    const bool defined = member != &FrameOutput::maskmem_features || output->has_memory;
    if (defined) {
      std::copy_n(tensor.data(), tensor.numel(), target);
    } else {
      std::fill_n(target, tensor.numel(), 0.0F);
    }
    target += tensor.numel();
  }
  return out;
}

void export_outputs(py::dict& state, const std::string& name, const Entries& entries) {
  Integers frames, has_memory, is_outdated, was_prompted;
  for (const auto& [frame, output] : entries) {
    frames.push_back(frame);
    has_memory.push_back(output->has_memory ? 1 : 0);
    is_outdated.push_back(output->is_outdated ? 1 : 0);
    was_prompted.push_back(output->was_prompted ? 1 : 0);
    if (!output->video_mask.empty()) {
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
  state[py::str(name + ".maskmem_features")] = stacked(entries, &FrameOutput::maskmem_features);
  state[py::str(name + ".obj_ptr")] = stacked(entries, &FrameOutput::obj_ptr);
  state[py::str(name + ".low_res_mask")] = stacked(entries, &FrameOutput::low_res_mask);
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

template <class T>
Array<T> array_at(const py::dict& state, const std::string& name, std::int64_t count) {
  if (!state.contains(name)) fail<CheckpointError>("session", name, "none");
  const auto array = Array<T>::ensure(state[py::str(name)]);
  if (!array) {
    PyErr_Clear();
    fail<CheckpointError>("session." + name, "an array of numbers", "something else");
  }
  if (array.ndim() < 1 || (count >= 0 && array.shape(0) != count)) {
    fail<CheckpointError>("session." + name, std::to_string(count) + " entries",
                          shape_of(array, name.c_str()).str());
  }
  return array;
}

Integers integers_at(const py::dict& state, const std::string& name, std::int64_t count) {
  const auto array = array_at<std::int64_t>(state, name, count);
  return {array.data(), array.data() + array.size()};
}

void fill(const Array<float>& source, std::int64_t index, Tensor& tensor, const char* name) {
  Shape expected{source.shape(0)};
  for (int axis = 0; axis < tensor.shape().rank(); ++axis) expected.push_back(tensor.shape()[axis]);
  const Shape found = shape_of(source, name);
  if (found != expected) {
    fail<CheckpointError>(std::string("session.") + name, "shape " + expected.str(), found.str());
  }
  const float* const values = source.data() + index * tensor.numel();
  if (!std::all_of(values, values + tensor.numel(), [](float x) { return std::isfinite(x); })) {
    fail<CheckpointError>(std::string("session.") + name, "finite values", "nan or infinity");
  }
  std::copy_n(values, tensor.numel(), tensor.data());
}

template <class Add>
void import_outputs(VideoPredictor& predictor, const py::dict& state, const std::string& name,
                    const Add& add) {
  const Integers frames = integers_at(state, name + ".frames", -1);
  const auto count = static_cast<std::int64_t>(frames.size());
  const Integers has_memory = integers_at(state, name + ".has_memory", count);
  const Integers is_outdated = integers_at(state, name + ".is_outdated", count);
  const Integers was_prompted = integers_at(state, name + ".was_prompted", count);
  const auto memory = array_at<float>(state, name + ".maskmem_features", count);
  const auto pointers = array_at<float>(state, name + ".obj_ptr", count);
  const auto masks = array_at<float>(state, name + ".low_res_mask", count);
  for (std::int64_t i = 0; i < count; ++i) {
    FrameOutputPtr output = predictor.make_output();
    fill(memory, i, output->maskmem_features, "maskmem_features");
    fill(pointers, i, output->obj_ptr, "obj_ptr");
    fill(masks, i, output->low_res_mask, "low_res_mask");
    for (const auto& [key, member] : kScores) {
      (*output).*member = array_at<float>(state, name + key, count).data()[i];
    }
    output->is_outdated = is_outdated[static_cast<std::size_t>(i)] != 0;
    output->was_prompted = was_prompted[static_cast<std::size_t>(i)] != 0;
    output->has_memory = has_memory[static_cast<std::size_t>(i)] != 0;
    add(frames[static_cast<std::size_t>(i)], std::move(output));
  }
}

void import_prompts(const py::dict& state, const std::string& name, TrackedObject& object) {
  const Integers frames = integers_at(state, name + ".points.frames", -1);
  const auto count = static_cast<std::int64_t>(frames.size());
  const Integers counts = integers_at(state, name + ".points.counts", count);
  const Integers labels = integers_at(state, name + ".points.labels", -1);
  const auto total = static_cast<std::int64_t>(labels.size());
  const auto coords = array_at<double>(state, name + ".points.coords", 2 * total);
  std::int64_t next = 0;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (counts[i] < 0 || counts[i] > total - next) {
      fail<CheckpointError>("session." + name + ".points.counts", "as many points as labels",
                            std::to_string(counts[i]));
    }
    ClickedPoints& points = object.points[frames[i]];
    for (const std::int64_t end = next + counts[i]; next < end; ++next) {
      const std::int64_t label = labels[static_cast<std::size_t>(next)];
      if (label < -1 || label > 3) {
        fail<CheckpointError>("session." + name + ".points.labels", "-1 to 3",
                              std::to_string(label));
      }
      points.labels.push_back(static_cast<std::int32_t>(label));
      points.coords.insert(points.coords.end(),
                           {coords.data()[2 * next], coords.data()[2 * next + 1]});
    }
  }
  const Integers masks = integers_at(state, name + ".mask_frames", -1);
  object.mask_frames = {masks.begin(), masks.end()};
  const Integers tracked = integers_at(state, name + ".frames_tracked", -1);
  const Integers reverse = integers_at(state, name + ".frames_tracked.reverse",
                                       static_cast<std::int64_t>(tracked.size()));
  for (std::size_t i = 0; i < tracked.size(); ++i) object.frames_tracked[tracked[i]] = reverse[i];
}

}  // namespace

py::dict export_video_state(const VideoPredictor& predictor) {
  py::dict state;
  Integers handles, batches;
  for (const auto& object : predictor.objects()) {
    const std::string name = std::to_string(handles.size());
    handles.push_back(object->handle);
    batches.push_back(object->batch);
    export_prompts(state, name, *object);
    export_outputs(state, name + ".cond", entries_of(object->cond_frame_outputs));
    export_outputs(state, name + ".non_cond", entries_of(object->non_cond_frame_outputs));
    export_outputs(state, name + ".temp_cond", entries_of(object->temp_cond));
    export_outputs(state, name + ".temp_non_cond", entries_of(object->temp_non_cond));
  }
  state["handles"] = integers(handles);
  state["batches"] = integers(batches);
  const Size size = predictor.orig_hw().value_or(Size{0, 0});
  state["orig_hw"] = integers({size.height, size.width});
  return state;
}

void import_video_state(VideoPredictor& predictor, const py::dict& state) {
  std::vector<std::unique_ptr<TrackedObject>> objects;
  const Integers handles = integers_at(state, "handles", -1);
  const Integers batches = integers_at(state, "batches", static_cast<std::int64_t>(handles.size()));
  for (std::size_t i = 0; i < handles.size(); ++i) {
    const std::string name = std::to_string(i);
    auto object = std::make_unique<TrackedObject>();
    object->handle = handles[i];
    object->batch = batches[i];
    import_prompts(state, name, *object);
    const auto into = [](OrderedOutputs& outputs) {
      return [&outputs](std::int64_t frame, FrameOutputPtr output) {
        outputs.set(frame, std::move(output));
      };
    };
    import_outputs(predictor, state, name + ".cond", into(object->cond_frame_outputs));
    import_outputs(predictor, state, name + ".temp_cond", into(object->temp_cond));
    import_outputs(predictor, state, name + ".temp_non_cond", into(object->temp_non_cond));
    import_outputs(predictor, state, name + ".non_cond",
                   [&](std::int64_t frame, FrameOutputPtr output) {
                     object->non_cond_frame_outputs[frame] = std::move(output);
                   });
    objects.push_back(std::move(object));
  }
  const Integers size = integers_at(state, "orig_hw", 2);
  if (size[0] < 0 || size[1] < 0) fail<CheckpointError>("session.orig_hw", "a size", "below 0");
  std::optional<Size> orig_hw;
  if (size[0] > 0 && size[1] > 0) orig_hw = Size{size[0], size[1]};
  predictor.restore(std::move(objects), orig_hw);
}

}  // namespace sam_rlx
