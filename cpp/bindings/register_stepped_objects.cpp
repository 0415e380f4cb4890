#include <pybind11/stl.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/config_dict.h"
#include "bindings/numpy.h"
#include "bindings/register.h"
#include "core/in_use.h"
#include "predictors/video/stepped_texts.h"

namespace sam_rlx {
namespace {

using Index = std::int64_t;
using Floats = std::optional<Array<float>>;
// Whether prompts are new, points (N, 2) and their labels (N,), a mask (S, S).
using InputArrays = std::tuple<bool, Floats, std::optional<Array<std::int32_t>>, Floats>;

// One call at a time.
struct Stepped {
  std::unique_ptr<SteppedObjects> objects;
  BusyFlag busy = {};

  explicit Stepped(std::unique_ptr<SteppedObjects> all) : objects(std::move(all)) {
    objects->set_poll_interrupt(poll_python_signals);
  }
  virtual ~Stepped() = default;
  template <class Work>
  auto call(const Work& work) {
    const InUse guard(busy, "inference session");
    return work(*objects);
  }
  const TrackedObject& object(Index number) const {
    const std::vector<TrackedObject>& all = objects->objects();
    if (number < 0 || number >= static_cast<Index>(all.size())) throw py::index_error("object");
    return all[static_cast<std::size_t>(number)];
  }
};

// The same for what texts name.
struct SteppedByTexts : Stepped {
  SteppedTexts texts;

  SteppedByTexts(std::unique_ptr<SteppedObjects> all, const SteppedTextsConfig& config)
      : Stepped(std::move(all)), texts(*objects, config) {}
  std::unique_ptr<SteppedByTexts> clone() const {
    std::vector<TrackedObject> kept = objects->objects();
    auto other = std::make_unique<SteppedByTexts>(objects->clone(), texts.config());
    other->objects->restore(std::move(kept));
    other->texts.restore(texts.state());
    return other;
  }
};

SteppedObjects::Input input_of(const InputArrays& arrays, Index side) {
  const auto& [is_new, points, labels, mask] = arrays;
  SteppedObjects::Input input{.is_new = is_new};
  if (points) {
    const Shape found = shape_of(*points, "points");
    if (!labels || found.rank() != 2 || found[1] != 2 || labels->size() != found[0]) {
      fail("points", "shape (N, 2), and N labels", found.str());
    }
    input.points.emplace();
    // Half a pixel to the middle, in upstream's precision.
    std::transform(points->data(), points->data() + points->size(),
                   std::back_inserter(input.points->coords),
                   [](float value) { return static_cast<double>(value + 0.5F); });
    input.points->labels.assign(labels->data(), labels->data() + labels->size());
  }
  if (mask) {
    input.mask = view_of(*mask, "mask");
    const Shape expected{side, side};
    if (input.mask.shape != expected) fail("mask", expected.str(), input.mask.shape.str());
  }
  return input;
}

// Masks (K, s, s) of logits and the objects' scores (K,).
py::tuple run_frame(Stepped& stepped, Index frame, std::optional<Index> num_frames, bool reverse,
                    bool remember, const std::vector<InputArrays>& arrays) {
  return stepped.call([&](SteppedObjects& objects) {
    std::vector<SteppedObjects::Input> inputs;
    for (const InputArrays& each : arrays) inputs.push_back(input_of(each, objects.step().side()));
    const auto count = static_cast<Index>(inputs.size()), side = objects.mask_side();
    Tensor masks({count, side, side}), scores({count});
    {
      const GilRelease release;
      const std::vector<FrameOutputPtr> outputs =
          objects.run({frame, num_frames, reverse, remember, inputs});
      for (Index i = 0; i < count; ++i) {
        const FrameOutput& output = *outputs[static_cast<std::size_t>(i)];
        std::copy_n(output.low_res_mask.data(), side * side, masks.data() + i * side * side);
        scores.data()[i] = output.object_score_logits;
      }
    }
    return py::make_tuple(to_numpy(std::move(masks)), to_numpy(std::move(scores)));
  });
}

void set_frame(Stepped& stepped, Index index, const Array<float>& pixels) {
  stepped.call([&](SteppedObjects& objects) {
    const ConstView view = view_of(pixels, "frame");
    const GilRelease release;
    objects.set_frame(index, view);
  });
}

const FrameOutputs& outputs_of(const Stepped& stepped, Index number, bool conditioning) {
  const TrackedObject& object = stepped.object(number);
  return conditioning ? object.cond_frame_outputs : object.non_cond_frame_outputs;
}

// None: there is none. The memory is None where it was not encoded.
py::object output(Stepped& stepped, Index number, Index frame, bool conditioning) {
  using namespace py::literals;
  return stepped.call([&](SteppedObjects&) -> py::object {
    const FrameOutput* const found = outputs_of(stepped, number, conditioning).find(frame);
    if (found == nullptr) return py::none();
    const auto copy = [](const SharedTensor& tensor) -> py::object {
      if (tensor.empty()) return py::none();
      return to_numpy(Tensor::copy_of(tensor.view()));
    };
    return py::dict("low_res_mask"_a = copy(found->low_res_mask),
                    "obj_ptr"_a = copy(found->obj_ptr),
                    "maskmem_features"_a = copy(found->maskmem_features),
                    "object_score_logits"_a = found->object_score_logits);
  });
}

py::dict tracked(Stepped& stepped, Index number) {
  return stepped.call([&](SteppedObjects&) {
    py::dict frames;
    for (const auto& [frame, reverse] : stepped.object(number).frames_tracked) {
      frames[py::int_(frame)] = reverse;
    }
    return frames;
  });
}

// A text's number, its tokens (L, C) and which of them are padding (L,).
using SteppedTextArrays = std::tuple<Index, Array<float>, Array<bool>>;

SteppedTexts::Text stepped_text(const SteppedTextArrays& arrays) {
  const auto& [number, tokens, padding] = arrays;
  const ConstView view = view_of(tokens, "text");
  if (view.shape.rank() != 2 || padding.ndim() != 1 || padding.shape(0) != view.shape[0]) {
    fail("text", "tokens (L, C) with padding (L,)", view.shape.str());
  }
  return {.number = number, .prompt = {.text = view, .text_padding = padding.data()}};
}

py::dict run_texts(SteppedByTexts& stepped, Index frame, Index num_frames, bool reverse,
                   bool streaming, const std::vector<SteppedTextArrays>& arrays) {
  using namespace py::literals;
  return stepped.call([&](SteppedObjects&) {
    std::vector<SteppedTexts::Text> texts;
    for (const SteppedTextArrays& each : arrays) texts.push_back(stepped_text(each));
    SteppedTexts::Found found;
    {
      const GilRelease release;
      found = stepped.texts.run({frame, num_frames, reverse, streaming, texts});
    }
    py::dict masks;
    for (auto& [obj_id, mask] : found.masks) masks[py::int_(obj_id)] = to_numpy(std::move(mask));
    return py::dict("masks"_a = masks, "tracker_scores"_a = found.tracker_scores,
                    "suppressed"_a = found.suppressed);
  });
}

py::dict texts_state(SteppedByTexts& stepped) {
  using namespace py::literals;
  return stepped.call([&](SteppedObjects&) {
    const SteppedTexts::State& state = stepped.texts.state();
    return py::dict("obj_ids"_a = state.obj_ids, "texts"_a = state.texts, "scores"_a = state.scores,
                    "removed"_a = state.removed, "max_obj_id"_a = state.max_obj_id);
  });
}

}  // namespace

void register_stepped_objects(py::module_& m) {
  py::classh<Stepped>(m, "SteppedObjects")
      .def(py::init([](std::shared_ptr<const Model> model, int num_threads, bool bfloat16_memory) {
             return std::make_unique<Stepped>(
                 std::make_unique<SteppedObjects>(std::move(model), num_threads, bfloat16_memory));
           }),
           py::arg("model"), py::arg("num_threads"), py::arg("bfloat16_memory"))
      .def(
          "__deepcopy__",
          [](Stepped& x, const py::dict&) {
            return x.call(
                [](const SteppedObjects& all) { return std::make_unique<Stepped>(all.clone()); });
          },
          py::arg("memo"))
      .def("__reduce__",
           [](const Stepped&) -> py::object {
             fail<UnsupportedError>("session", "copy.deepcopy, or a new session where it is needed",
                                    "a session to pickle or to copy in part");
           })
      .def_property_readonly("num_objects",
                             [](const Stepped& x) { return x.objects->objects().size(); })
      .def(
          "has_frame",
          [](Stepped& x, Index index) {
            return x.call([&](const SteppedObjects& all) { return all.has_frame(index); });
          },
          py::arg("index"))
      .def(
          "needs_frame",
          [](Stepped& x, Index frame, const std::vector<bool>& is_new) {
            std::vector<SteppedObjects::Input> inputs;
            for (const bool each : is_new) inputs.push_back({.is_new = each});
            return x.call(
                [&](const SteppedObjects& all) { return all.needs_frame(frame, inputs); });
          },
          py::arg("frame"), py::arg("is_new"))
      .def("set_frame", set_frame, py::arg("index"), py::arg("pixels"))
      .def("forget_frames",
           [](Stepped& x) { x.call([](SteppedObjects& all) { all.forget_frames(); }); })
      .def("add_object", [](Stepped& x) { x.call([](SteppedObjects& all) { all.add_object(); }); })
      .def("reset", [](Stepped& x) { x.call([](SteppedObjects& all) { all.reset(); }); })
      .def("run", run_frame, py::arg("frame"), py::arg("num_frames"), py::arg("reverse"),
           py::arg("remember"), py::arg("inputs"))
      .def(
          "frames",
          [](Stepped& x, Index number, bool conditioning) {
            return x.call([&](SteppedObjects&) {
              return outputs_of(x, number, conditioning).frames_by_arrival();
            });
          },
          py::arg("number"), py::arg("conditioning"))
      .def("output", output, py::arg("number"), py::arg("frame"), py::arg("conditioning"))
      .def("tracked", tracked, py::arg("number"));
  py::classh<SteppedByTexts, Stepped>(m, "SteppedTexts")
      .def(py::init([](std::shared_ptr<const Model> model, int num_threads, bool bfloat16_memory,
                       const py::dict& options) {
             return std::make_unique<SteppedByTexts>(
                 std::make_unique<SteppedObjects>(std::move(model), num_threads, bfloat16_memory),
                 read_options<SteppedTextsConfig>(options, "Sam3VideoModel",
                                                  "a setting of Sam3VideoConfig"));
           }),
           py::arg("model"), py::arg("num_threads"), py::arg("bfloat16_memory"), py::arg("options"))
      .def(
          "__deepcopy__",
          [](SteppedByTexts& x, const py::dict&) {
            return x.call([&](const SteppedObjects&) { return x.clone(); });
          },
          py::arg("memo"))
      .def("run_texts", run_texts, py::arg("frame"), py::arg("num_frames"), py::arg("reverse"),
           py::arg("streaming"), py::arg("texts"))
      .def("state", texts_state)
      .def(
          "remove_object",
          [](SteppedByTexts& x, Index obj_id) {
            return x.call([&](SteppedObjects&) { return x.texts.remove_object(obj_id); });
          },
          py::arg("obj_id"))
      .def("reset_objects",
           [](SteppedByTexts& x) { x.call([&](SteppedObjects&) { x.texts.reset_objects(); }); })
      .def("reset_texts",
           [](SteppedByTexts& x) { x.call([&](SteppedObjects&) { x.texts.reset(); }); });
}

}  // namespace sam_rlx
