#include <string_view>

#include "models/sam2/mask_decoder.h"
#include "models/sam2/memory_attention.h"
#include "models/sam2/memory_encoder.h"
#include "models/sam2/spatial_perceiver.h"
#include "ops/elementwise.h"
#include "testing/layer.h"

namespace sam_rlx {

namespace {

using Run = decltype(TestLayer::run);

// ---------------------------------------------------------------- decoder

// image_embeddings, image_pe (1, H, W, C); sparse_prompt_embeddings (B, N, C);
// dense_prompt_embeddings (B, H, W, C); level0 (4H, 4W, C), level1 (2H, 2W, C); `share`: project
// the map once; `hq_token_only`: of HQ-SAM 2, one mask -> masks (B, K, 4H, 4W), iou (B, K), tokens
// (B, K or 1, C), object score (B, 1)
Run make_mask_decoder(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer = loaded(sam2::MaskDecoder(read_config<sam2::MaskDecoderConfig>(c)), w, k);
  return [layer](Context& ctx, const Arrays& in) -> py::object {
    const Array<float> image = array_of(in, "image_embeddings");
    const Array<float> pe = array_of(in, "image_pe");
    const Array<float> sparse = array_of(in, "sparse_prompt_embeddings");
    const Array<float> dense = array_of(in, "dense_prompt_embeddings");
    const Array<float> level0 = array_of(in, "level0"), level1 = array_of(in, "level1");
    const bool multimask = in.at("multimask_output").cast<bool>();
    const std::int64_t channels = image.shape(3), batch = sparse.shape(0);
    const bool alone = has(in, "hq_token_only") && in.at("hq_token_only").cast<bool>();
    const std::int64_t count = multimask ? layer->config.num_multimask_outputs : 1;
    sam2::HighResFeatures high_res;
    const auto projected_by = [&](const Conv2d& conv, ConstView map) {
      return conv.forward(ctx, map.reshape({1, map.shape[0], map.shape[1], map.shape[2]}))[0];
    };
    layer->adopt_high_res(ctx, projected_by(layer->conv_s0, view_of(level0, "level0")),
                          projected_by(layer->conv_s1, view_of(level1, "level1")), high_res);
    Tensor masks({batch, alone ? 1 : count, 4 * image.shape(1), 4 * image.shape(2)});
    Tensor iou({batch, count}), tokens({batch, count, channels}), score({batch, 1});
    for (std::int64_t b = 0; b < batch; ++b) {
      const Workspace::Scope scratch(ctx.workspace);
      const View map = add(ctx, view_of(image, "image_embeddings")[0], view_of(dense, "dense")[b]);
      sam::ProjectedMap projected;
      const bool share = has(in, "share") && in.at("share").cast<bool>();
      if (share) layer->transformer.project_map(ctx, map, view_of(pe, "image_pe"), projected);
      const sam2::MaskDecoder::Decoded decoded =
          layer->decode(ctx, {map, view_of(pe, "image_pe"), view_of(sparse, "sparse")[b],
                              share ? &projected : nullptr});
      std::int64_t first = 1;
      if (!multimask) {
        first = layer->predict_single_mask(ctx, decoded, high_res, masks.view()[b][0], alone);
      } else if (alone) {
        layer->predict_hq_mask(ctx, decoded, high_res, masks.view()[b][0]);
      } else {
        layer->predict_masks(ctx, decoded, high_res, 1, masks.view()[b]);
      }
      copy_(ctx, iou.view()[b], {decoded.iou_predictions.data + first, Shape{count}});
      for (std::int64_t i = 0; i < count; ++i) {
        copy_(ctx, tokens.view()[b][i], decoded.mask_token(multimask ? 1 + i : 0));
      }
      score.data()[b] = decoded.object_score_logit;
    }
    return py::make_tuple(to_numpy(std::move(masks)), to_numpy(std::move(iou)),
                          to_numpy(std::move(tokens)), to_numpy(std::move(score)));
  };
}

// ---------------------------------------------------------------- memory encoder

// x (1, S, S, in_channels)
Run make_mask_downsampler(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer = loaded(sam2::MaskDownSampler(get<std::int64_t>(c, "embed_dim", 256),
                                                  get<std::int64_t>(c, "total_stride", 16),
                                                  get<std::int64_t>(c, "in_channels", 1),
                                                  get<std::int64_t>(c, "starting_out_chan", 1)),
                            w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    return result_of(layer->forward(ctx, view_of(x, "x")));
  };
}

// x (1, H, W, C)
Run make_cx_block(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer = loaded(sam2::CXBlock(c["dim"].cast<std::int64_t>()), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    Tensor out = Tensor::copy_of(view_of(x, "x"));
    layer->forward_(ctx, out);
    return to_numpy(std::move(out));
  };
}

// pix_feat (g, g, C), masks (S, S)
Run make_memory_encoder(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer = loaded(sam2::MemoryEncoder(read_config<sam2::MemoryEncoderConfig>(c)), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> pix_feat = array_of(in, "pix_feat"), masks = array_of(in, "masks");
    return result_of(layer->forward(ctx, view_of(pix_feat, "pix_feat"), view_of(masks, "masks")));
  };
}

// ---------------------------------------------------------------- memory attention

// query (N, C); value, pos (M, kv), keys come from their sum and the last `exclude` of them are not
// turned; `factored`: keys are never made -> (N, C)
Run make_rope_attention(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto config = read_config<sam2::MemoryAttentionConfig>(c);
  const std::int64_t side = config.key_side();
  const auto layer = loaded(sam2::RoPEAttention(config, config.kv_in_dim, side), w, k);
  return [layer, side](Context& ctx, const Arrays& in) {
    const Array<float> query = array_of(in, "query");
    const Array<float> value = array_of(in, "value"), pos = array_of(in, "pos");
    const auto exclude = in.at("exclude").cast<std::int64_t>();
    const std::int64_t positions = side * side, turned = value.shape(0) - exclude;
    const auto rows = [](const Array<float>& array, std::int64_t first, std::int64_t count) {
      return ConstView(array.data() + first * array.shape(1), {count, array.shape(1)});
    };
    std::vector<PositionMap> maps;
    for (std::int64_t i = 0; i < turned; i += positions) {
      maps.push_back({rows(value, i, positions), rows(pos, i, positions), {}});
    }
    const ConstView tokens = rows(value, turned, exclude), token_pos = rows(pos, turned, exclude);
    Tensor x = Tensor::zeros(shape_of(query, "query"));
    if (in.at("factored").cast<bool>()) {
      const PackedPositions packed =
          pack_positions(ctx, side, maps, tokens, token_pos, layer->position_projection.products);
      layer->forward_add_(ctx, view_of(query, "query"), {.positions = &packed}, x);
      return to_numpy(std::move(x));
    }
    std::vector<sam2::KeyPart> parts;
    for (const PositionMap& map : maps) {
      parts.push_back({add(ctx, map.features, map.pos), map.features, true});
    }
    parts.push_back({add(ctx, tokens, token_pos), tokens, false});
    layer->forward_add_(ctx, view_of(query, "query"), {.parts = parts}, x);
    return to_numpy(std::move(x));
  };
}

// x (g, g, C) -> (num_latents + num_latents_2d, C), and the encoding of its positions
Run make_spatial_perceiver(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer = loaded(sam2::SpatialPerceiver(read_config<sam2::SpatialPerceiverConfig>(c),
                                                   c["grid"].cast<std::int64_t>()),
                            w, k);
  return [layer](Context& ctx, const Arrays& in) -> py::object {
    const Array<float> x = array_of(in, "x");
    Tensor out({layer->config.num_tokens(), layer->config.dim});
    layer->forward(ctx, view_of(x, "x"), out);
    return py::make_tuple(to_numpy(std::move(out)), to_numpy(layer->positions()));
  };
}

// curr, curr_pos (N, C); features, pos (n, M, kv); tpos (n, kv); pointers, pointer_pos (P, kv);
// `absent`: so many slots without a map are put before each map. Its layers have the format of the
// config.
Run make_memory_attention(const py::dict& c, const Weights& w, const KernelTable& k) {
  static constexpr std::string_view kLayers[] = {"layers"};
  const WeightRule rule{weight_format_named(get<std::string>(c, "format", "float32")),
                        {.within = kLayers, .except = {}}};
  const auto layer =
      loaded(sam2::MemoryAttention(read_config<sam2::MemoryAttentionConfig>(c)), w, k, rule);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> curr = array_of(in, "curr"), curr_pos = array_of(in, "curr_pos");
    const Array<float> features = array_of(in, "features"), pos = array_of(in, "pos");
    const Array<float> tpos = array_of(in, "tpos");
    const Array<float> pointers = array_of(in, "pointers"), ptr_pos = array_of(in, "pointer_pos");
    std::vector<sam2::MemoryMap> maps;
    const auto absent = has(in, "absent") ? in.at("absent").cast<std::size_t>() : 0;
    const ConstView nothing(features.data(), {0, features.shape(2)});
    for (std::int64_t i = 0; i < features.shape(0); ++i) {
      maps.insert(maps.end(), absent, {nothing, nothing});
      maps.push_back(
          {view_of(features, "features")[i], view_of(pos, "pos")[i], view_of(tpos, "tpos")[i]});
    }
    const View shared = layer->begin(ctx, view_of(curr, "curr"), view_of(curr_pos, "curr_pos"));
    return result_of(layer->finish(
        ctx, shared, {maps, view_of(pointers, "pointers"), view_of(ptr_pos, "pointer_pos")}));
  };
}

}  // namespace

const Makers& sam2_memory_makers() {
  static const Makers table{
      {"sam2.CXBlock", make_cx_block},
      {"sam2.MaskDecoder", make_mask_decoder},
      {"sam2.MaskDownSampler", make_mask_downsampler},
      {"sam2.MemoryAttention", make_memory_attention},
      {"sam2.MemoryEncoder", make_memory_encoder},
      {"sam2.RoPEAttention", make_rope_attention},
      {"sam2.SpatialPerceiver", make_spatial_perceiver},
  };
  return table;
}

}  // namespace sam_rlx
