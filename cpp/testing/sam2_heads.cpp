#include <algorithm>
#include <set>

#include "models/sam2/memory_bank.h"
#include "models/sam2/sam2.h"
#include "testing/layer.h"
#include "testing/register.h"

namespace sam_rlx {
namespace {

using Run = decltype(TestLayer::run);
using sam2::Sam2Heads;

sam2::HighResFeatures high_res_of(Context& ctx, const Arrays& in) {
  const Array<float> s0 = array_of(in, "s0"), s1 = array_of(in, "s1");
  sam2::HighResFeatures high_res;
  sam2::MaskDecoder::adopt_high_res(ctx, view_of(s0, "s0"), view_of(s1, "s1"), high_res);
  return high_res;
}

// -> low-res mask (4g, 4g), IoU (1,), pointer (C,), object score (1,)
py::object result_of(const sam2::SamOutputs& out) {
  const Shape one{1};
  return py::make_tuple(result_of(out.low_res_mask), result_of(ConstView(&out.iou_prediction, one)),
                        result_of(out.obj_ptr),
                        result_of(ConstView(&out.object_score_logits, one)));
}

// backbone_features (g, g, C); s0 (4g, 4g, C / 8), s1 (2g, 2g, C / 4); point_coords (P, 2) and
// point_labels (P,), mask (S, S): any may be absent
py::object forward_sam_heads(const Sam2Heads& heads, Context& ctx, const Arrays& in) {
  const Array<float> features = array_of(in, "backbone_features");
  const sam2::HighResFeatures high_res = high_res_of(ctx, in);
  std::vector<double> points;
  Array<std::int32_t> labels;
  Array<float> mask;
  sam::Prompt prompt;
  if (has(in, "point_coords")) {
    const Array<float> coords = array_of(in, "point_coords");
    labels = in.at("point_labels").cast<Array<std::int32_t>>();
    for (py::ssize_t i = 0; i < coords.size(); ++i) points.push_back(coords.data()[i] + 0.5F);
    prompt.points = points.data();
    prompt.labels = labels.data();
    prompt.num_points = labels.size();
  }
  if (has(in, "mask")) {
    mask = array_of(in, "mask");
    prompt.mask = view_of(mask, "mask");
  }
  return result_of(
      heads.forward_sam_heads(ctx, {.backbone_features = view_of(features, "backbone_features"),
                                    .high_res = high_res,
                                    .prompt = prompt,
                                    .multimask_output = in.at("multimask_output").cast<bool>()}));
}

py::object use_mask_as_output(const Sam2Heads& heads, Context& ctx, const Arrays& in) {
  const Array<float> features = array_of(in, "backbone_features"), mask = array_of(in, "mask");
  const sam2::HighResFeatures high_res = high_res_of(ctx, in);
  return result_of(
      heads.use_mask_as_output(ctx, {.backbone_features = view_of(features, "backbone_features"),
                                     .high_res = high_res,
                                     .mask = view_of(mask, "mask")}));
}

py::object encode_new_memory(const Sam2Heads& heads, Context& ctx, const Arrays& in) {
  const Array<float> features = array_of(in, "pix_feat"), mask = array_of(in, "mask");
  return result_of(heads.encode_new_memory(
      ctx, {.pix_feat = view_of(features, "pix_feat"),
            .mask = view_of(mask, "mask"),
            .object_score_logits = in.at("object_score_logits").cast<float>(),
            .is_mask_from_pts = in.at("is_mask_from_pts").cast<bool>()}));
}

using Frames = std::vector<std::int64_t>;

sam2::MemoryChoice choose(const sam2::MemoryBankConfig& config, std::int64_t frame_idx,
                          std::int64_t num_frames, bool reverse, const Frames& cond,
                          const Frames& non_cond) {
  const std::set<std::int64_t> tracked(non_cond.begin(), non_cond.end());
  return sam2::select_memory(
      config, {.frame_idx = frame_idx,
               .num_frames = num_frames,
               .track_in_reverse = reverse,
               .cond_frames = cond,
               .is_tracked = [&](std::int64_t frame) { return tracked.contains(frame); }});
}

// curr, curr_pos (g * g, C); maskmem_pos_enc (g, g, kv); features (n, g, g, kv), obj_ptrs (n, C):
// of the frames cond, then non_cond
py::object condition(const Sam2Heads& heads, Context& ctx, const Arrays& in) {
  const Array<float> curr = array_of(in, "curr"), curr_pos = array_of(in, "curr_pos");
  const Array<float> pos = array_of(in, "maskmem_pos_enc");
  const Array<float> features = array_of(in, "features"), pointers = array_of(in, "obj_ptrs");
  const auto cond = in.at("cond").cast<Frames>(), non_cond = in.at("non_cond").cast<Frames>();
  const auto lookup = [&](std::int64_t frame, bool conditioning) -> sam2::FrameMemory {
    const Frames& frames = conditioning ? cond : non_cond;
    std::int64_t index = std::find(frames.begin(), frames.end(), frame) - frames.begin();
    if (!conditioning) index += static_cast<std::int64_t>(cond.size());
    return {view_of(features, "features")[index], view_of(pointers, "obj_ptrs")[index]};
  };
  const sam2::MemoryChoice choice = choose(
      heads.config.memory_bank, in.at("frame_idx").cast<std::int64_t>(),
      in.at("num_frames").cast<std::int64_t>(), in.at("reverse").cast<bool>(), cond, non_cond);
  const View shared =
      heads.memory_attention.begin(ctx, view_of(curr, "curr"), view_of(curr_pos, "curr_pos"));
  return result_of(
      heads.prepare_memory_conditioned_features(ctx, shared, view_of(pos, "pos"), choice, lookup));
}

// `call` says which function of the heads runs.
Run run_heads(const std::shared_ptr<Sam2Heads>& heads) {
  return [heads](Context& ctx, const Arrays& in) -> py::object {
    using Call = py::object (*)(const Sam2Heads&, Context&, const Arrays&);
    static const std::map<std::string, Call> calls{
        {"forward_sam_heads", forward_sam_heads},
        {"use_mask_as_output", use_mask_as_output},
        {"encode_new_memory", encode_new_memory},
        {"condition", condition},
    };
    return calls.at(in.at("call").cast<std::string>())(*heads, ctx, in);
  };
}

Run make_heads(const py::dict& c, const Weights& w, const KernelTable& k) {
  return run_heads(loaded(Sam2Heads(read_config<sam2::HeadsConfig>(c)), w, k));
}

// With a perceiver.
Run make_edge_tam_heads(const py::dict& c, const Weights& w, const KernelTable& k) {
  auto config = read_config<sam2::HeadsConfig>(c);
  config.spatial_perceiver = read_config<sam2::SpatialPerceiverConfig>(c);
  config.memory_attention.key_size = config.spatial_perceiver->windows();
  return run_heads(loaded(Sam2Heads(config), w, k));
}

// -> maps [(frame, conditioning, row)], pointers [(frame, conditioning, distance)], divisor
py::tuple select_memory(const py::dict& config, std::int64_t frame_idx, std::int64_t num_frames,
                        bool reverse, const Frames& cond, const Frames& non_cond) {
  const sam2::MemoryChoice choice = choose(read_config<sam2::MemoryBankConfig>(config), frame_idx,
                                           num_frames, reverse, cond, non_cond);
  py::list maps, pointers;
  for (const auto& map : choice.maps) {
    maps.append(py::make_tuple(map.frame, map.conditioning, map.tpos_row));
  }
  for (const auto& pointer : choice.pointers) {
    pointers.append(py::make_tuple(pointer.frame, pointer.conditioning, pointer.distance));
  }
  return py::make_tuple(maps, pointers, choice.distance_scale);
}

}  // namespace

const Makers& sam2_heads_makers() {
  static const Makers table{{"sam2.EdgeTamHeads", make_edge_tam_heads},
                            {"sam2.Sam2Heads", make_heads}};
  return table;
}

void register_sam2(py::module_& m) {
  m.def("select_memory", &select_memory, py::arg("config"), py::arg("frame_idx"),
        py::arg("num_frames"), py::arg("reverse"), py::arg("cond"), py::arg("non_cond"));
}

}  // namespace sam_rlx
