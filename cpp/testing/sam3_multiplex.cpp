#include <algorithm>

#include "models/sam3/multiplex_tracker.h"
#include "models/sam3/tracker.h"
#include "ops/elementwise.h"
#include "testing/layer.h"

// SAM 3.1: objects of a video in buckets.

namespace sam_rlx {
namespace {

using Run = decltype(TestLayer::run);

sam3::MultiplexConfig multiplex_config(const py::dict& c) {
  sam3::MultiplexConfig config;
  config.multiplex_count = get<std::int64_t>(c, "multiplex_count", 16);
  config.num_maskmem = get<std::int64_t>(c, "num_maskmem", 7);
  config.mask_decoder.transformer.embedding_dim = get<std::int64_t>(c, "d_model", 256);
  config.mask_decoder.transformer.mlp_dim = get<std::int64_t>(c, "decoder_mlp_dim", 2048);
  config.memory_encoder.starting_out_chan = get<std::int64_t>(c, "starting_out_chan", 4);
  config.memory_encoder.fuser_layers = get<std::int64_t>(c, "fuser_layers", 2);
  config.memory_attention.num_heads = get<std::int64_t>(c, "num_heads", 8);
  config.memory_attention.num_layers = get<std::int64_t>(c, "num_layers", 4);
  config.memory_attention.dim_feedforward = get<std::int64_t>(c, "dim_feedforward", 2048);
  config.memory_attention.feat_size = get<std::int64_t>(c, "grid", 72);
  return config;
}

// Rows (..., C) in the order of the keys' channels.
Tensor in_order(const std::vector<std::int64_t>& order, ConstView rows) {
  Tensor out(rows.shape);
  const auto channels = static_cast<std::int64_t>(order.size());
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    out.data()[i] = rows.data[i - i % channels + order[static_cast<std::size_t>(i % channels)]];
  }
  return out;
}

// map, pos (N, C); images, features (n, N, C); tpos (n, C); memory_pos (N, C); pointers,
// pointer_pos (P, C) -> (N, C)
Run make_multiplex_attention(const py::dict& c, const Weights& w, const KernelTable& k) {
  const sam3::MultiplexConfig config = multiplex_config(c);
  const auto layer =
      loaded(sam3::MultiplexAttention(config.memory_attention, config.d_model()), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> map = array_of(in, "map"), pos = array_of(in, "pos");
    const Array<float> images = array_of(in, "images"), features = array_of(in, "features");
    const Array<float> pointers = array_of(in, "pointers");
    const std::vector<std::int64_t> order = layer->channel_order();
    const auto keyed = [&](const char* name) {
      return in_order(order, view_of(array_of(in, name), name));
    };
    const Tensor tpos = keyed("tpos"), memory_pos = keyed("memory_pos");
    const Tensor pointer_pos = keyed("pointer_pos");
    std::vector<sam3::BucketMap> maps;
    for (std::int64_t i = 0; i < images.shape(0); ++i) {
      maps.push_back(
          {view_of(images, "images")[i], view_of(features, "features")[i], tpos.view()[i]});
    }
    const View shared = layer->begin(ctx, view_of(map, "map"), view_of(pos, "pos"));
    return result_of(layer->finish(ctx, shared, view_of(map, "map"),
                                   {.maps = maps,
                                    .pos = memory_pos,
                                    .pointers = view_of(pointers, "pointers"),
                                    .pointer_pos = pointer_pos}));
  };
}

// map, image_pe (g, g, C); level0 (4g, 4g, C), level1 (2g, 2g, C): before conv_s0 and conv_s1;
// slot_embed (slots, C) -> masks (slots, K, 4g, 4g), iou (slots, K), tokens (slots, K, C), object
// scores (slots, 1)
Run make_multiplex_mask_decoder(const py::dict& c, const Weights& w, const KernelTable& k) {
  const sam3::MultiplexConfig config = multiplex_config(c);
  const auto layer =
      loaded(sam3::MultiplexMaskDecoder(config.mask_decoder, config.multiplex_count), w, k);
  return [layer](Context& ctx, const Arrays& in) -> py::object {
    const Array<float> map = array_of(in, "map"), pe = array_of(in, "image_pe");
    const Array<float> level0 = array_of(in, "level0"), level1 = array_of(in, "level1");
    const Array<float> slot_embed = array_of(in, "slot_embed");
    sam2::HighResFeatures high_res;
    const auto projected_by = [&](const Conv2d& conv, ConstView level) {
      return conv.forward(ctx,
                          level.reshape({1, level.shape[0], level.shape[1], level.shape[2]}))[0];
    };
    sam2::MaskDecoder::adopt_high_res(ctx, projected_by(layer->conv_s0, view_of(level0, "level0")),
                                      projected_by(layer->conv_s1, view_of(level1, "level1")),
                                      high_res);
    const sam3::MultiplexMaskDecoder::Decoded decoded =
        layer->decode(ctx, {.map = view_of(map, "map"),
                            .image_pe = view_of(pe, "image_pe"),
                            .slot_embed = view_of(slot_embed, "slot_embed")});
    const std::int64_t slots = layer->multiplex_count, count = layer->config.num_multimask_outputs;
    const std::int64_t low = 4 * map.shape(0), channels = map.shape(2);
    std::vector<sam3::MultiplexMaskDecoder::Choice> choices;
    Tensor tokens({slots, count, channels}), masks({slots * count, low, low});
    for (std::int64_t i = 0; i < slots * count; ++i) {
      choices.push_back({i / count, i % count});
      copy_(ctx, tokens.view()[i / count][i % count], layer->mask_token(decoded, choices.back()));
    }
    layer->predict_masks(ctx, decoded, high_res, choices, masks);
    return py::make_tuple(result_of(masks.view().reshape({slots, count, low, low})),
                          result_of(decoded.iou_predictions), to_numpy(std::move(tokens)),
                          result_of(decoded.object_score_logits));
  };
}

// The heads for clicks, and what follows a bucket.
struct BucketModel {
  sam3::Tracker tracker;
  sam3::MultiplexTracker multiplex;

  void visit(ParamVisitor& v) {
    v("", tracker);
    v("model", multiplex);
  }
};

std::shared_ptr<BucketModel> bucket_model(const py::dict& c, const Weights& w,
                                          const KernelTable& k) {
  const sam3::MultiplexConfig config = multiplex_config(c);
  sam3::VisionConfig vision;
  vision.trunk.img_size = config.memory_attention.feat_size * vision.trunk.patch_size;
  vision.neck.d_model = config.d_model();
  sam2::HeadsConfig heads = sam3::tracker_heads(vision);
  heads.mask_decoder.transformer.mlp_dim = config.mask_decoder.transformer.mlp_dim;
  sam3::make_interactive(heads, config);
  return loaded(BucketModel{sam3::Tracker(heads, true), sam3::MultiplexTracker(config)}, w, k);
}

// pix_feat (g, g, C); masks (K, S, S) logits; slots, is_conditioning (K,); scores (K,)
// -> (g, g, C)
Run make_bucket_memory(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto model = bucket_model(c, w, k);
  return [model](Context& ctx, const Arrays& in) {
    const Array<float> pix_feat = array_of(in, "pix_feat"), masks = array_of(in, "masks");
    const Array<float> scores = array_of(in, "scores");
    const auto slots = in.at("slots").cast<std::vector<std::int64_t>>();
    const auto flags = in.at("is_conditioning").cast<std::vector<bool>>();
    std::vector<sam3::MultiplexTracker::SlotMask> objects;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      objects.push_back({.slot = slots[i],
                         .mask = view_of(masks, "masks")[static_cast<std::int64_t>(i)],
                         .object_score_logits = scores.data()[i],
                         .is_conditioning = flags[i]});
    }
    return result_of(model->multiplex.encode_new_memory(ctx, model->tracker.heads,
                                                        view_of(pix_feat, "pix_feat"), objects));
  };
}

// map (g, g, C), level0, level1 after conv_s0 and conv_s1; what frames left behind: images,
// features (n, g, g, C), pointers (n, slots, C), their numbers `frames` and the `prompted` ones
// among them; frame, num_frames, reverse; slots (K,) -> masks (K, 4g, 4g), pointers (K, C), iou
// (K,), object scores (K,)
Run make_bucket_step(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto model = bucket_model(c, w, k);
  return [model](Context& ctx, const Arrays& in) -> py::object {
    const sam3::MultiplexTracker& multiplex = model->multiplex;
    const Array<float> map = array_of(in, "map");
    const Array<float> level0 = array_of(in, "level0"), level1 = array_of(in, "level1");
    const Array<float> images = array_of(in, "images"), features = array_of(in, "features");
    const Array<float> pointers = array_of(in, "pointers"), pos = array_of(in, "pos");
    const auto frames = in.at("frames").cast<std::vector<std::int64_t>>();
    const auto prompted = in.at("prompted").cast<std::vector<std::int64_t>>();
    const auto slots = in.at("slots").cast<std::vector<std::int64_t>>();
    const auto holds = [](const std::vector<std::int64_t>& list, std::int64_t frame) {
      return std::find(list.begin(), list.end(), frame) != list.end();
    };
    const sam2::MemoryChoice choice = sam2::select_memory(
        multiplex.memory_bank, {.frame_idx = in.at("frame").cast<std::int64_t>(),
                                .num_frames = in.at("num_frames").cast<std::int64_t>(),
                                .track_in_reverse = in.at("reverse").cast<bool>(),
                                .cond_frames = prompted,
                                .is_tracked = [&](std::int64_t frame) {
                                  return holds(frames, frame) && !holds(prompted, frame);
                                }});
    const sam3::BucketLookup lookup = [&](std::int64_t frame, bool) {
      const std::int64_t i = std::find(frames.begin(), frames.end(), frame) - frames.begin();
      return sam3::BucketOutput{view_of(images, "images")[i], view_of(features, "features")[i],
                                view_of(pointers, "pointers")[i]};
    };
    const ConstView x = view_of(map, "map");
    const Shape positions{x.shape[0] * x.shape[1], x.shape[2]};
    const View shared = multiplex.memory_attention.begin(ctx, x.reshape(positions),
                                                         view_of(pos, "pos").reshape(positions));
    const View conditioned =
        multiplex.prepare_memory_conditioned_features(ctx, shared, x, choice, lookup);
    sam2::HighResFeatures high_res;
    sam2::MaskDecoder::adopt_high_res(ctx, view_of(level0, "level0"), view_of(level1, "level1"),
                                      high_res);
    const sam3::MultiplexTracker::Outputs out = multiplex.forward_sam_heads(
        ctx, model->tracker.heads,
        {.backbone_features = conditioned, .high_res = high_res, .slots = slots});
    const Shape count{static_cast<std::int64_t>(slots.size())};
    return py::make_tuple(result_of(out.low_res_masks), result_of(out.obj_ptrs),
                          result_of({out.iou_predictions.data(), count}),
                          result_of({out.object_score_logits.data(), count}));
  };
}

}  // namespace

const Makers& sam3_multiplex_makers() {
  static const Makers table{
      {"sam3.MultiplexAttention", make_multiplex_attention},
      {"sam3.MultiplexMaskDecoder", make_multiplex_mask_decoder},
      {"sam3.BucketMemory", make_bucket_memory},
      {"sam3.BucketStep", make_bucket_step},
  };
  return table;
}

}  // namespace sam_rlx
