#include "layers/batch_norm.h"
#include "layers/mlp.h"
#include "layers/norm.h"
#include "models/sam/sam.h"
#include "ops/elementwise.h"
#include "ops/mask_upscaling.h"
#include "testing/layer.h"
#include "testing/register.h"

namespace sam_rlx {
namespace {

sam::ImageEncoderConfig encoder_config(const py::dict& c) {
  auto config = read_config(c, sam::ImageEncoderConfig{.table_size = 0});
  if (config.table_size == 0) config.table_size = config.img_size;
  config.mlp_dim = static_cast<std::int64_t>(get<double>(c, "mlp_ratio", 4.0) *
                                             static_cast<double>(config.embed_dim));
  return config;
}

// ---------------------------------------------------------------- layers/

decltype(TestLayer::run) make_layer_norm(const py::dict& c, const Weights& w,
                                         const KernelTable& k) {
  const auto layer =
      loaded(LayerNorm(get<std::int64_t>(c, "num_channels", 1), get<float>(c, "eps", 1e-6F)), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    return result_of(layer->forward(ctx, view_of(x, "x")));
  };
}

decltype(TestLayer::run) make_mlp(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer =
      loaded(MLP(c["input_dim"].cast<std::int64_t>(), c["hidden_dim"].cast<std::int64_t>(),
                 c["output_dim"].cast<std::int64_t>(), c["num_layers"].cast<std::int64_t>()),
             w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    return result_of(layer->forward(ctx, view_of(x, "x")));
  };
}

// ---------------------------------------------------------------- image encoder

decltype(TestLayer::run) make_patch_embed(const py::dict& c, const Weights& w,
                                          const KernelTable& k) {
  sam::PatchEmbed embed;
  const sam::ImageEncoderConfig config = encoder_config(c);
  embed.proj = Conv2d(config.in_chans, config.embed_dim, conv_patches(config.patch_size));
  const auto layer = loaded(std::move(embed), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    return result_of(layer->forward(ctx, view_of(x, "x"), {}));
  };
}

decltype(TestLayer::run) make_block(const py::dict& c, const Weights& w, const KernelTable& k) {
  sam::ImageEncoderConfig config = encoder_config(c);
  config.embed_dim = get<std::int64_t>(c, "dim", config.embed_dim);
  config.mlp_dim = static_cast<std::int64_t>(get<double>(c, "mlp_ratio", 4.0) *
                                             static_cast<double>(config.embed_dim));
  config.patch_size = 1;
  config.img_size = config.table_size = get<std::int64_t>(c, "input_size", 64);
  const auto layer = loaded(sam::Block(config, config.window_size == 0), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    Tensor y = Tensor::copy_of(view_of(x, "x"));
    layer->forward_(ctx, y);
    return result_of(y);
  };
}

decltype(TestLayer::run) make_neck(const py::dict& c, const Weights& w, const KernelTable& k) {
  const sam::ImageEncoderConfig config = encoder_config(c);
  const auto layer = loaded(sam::Neck(config.embed_dim, config.out_chans), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    const ConstView view = view_of(x, "x");
    Tensor out(view.shape.with_last(layer->conv2.out_channels));
    layer->forward(ctx, view, out);
    return result_of(out);
  };
}

decltype(TestLayer::run) make_image_encoder(const py::dict& c, const Weights& w,
                                            const KernelTable& k) {
  const auto layer = loaded(sam::ImageEncoderViT(encoder_config(c)), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    const ConstView view = view_of(x, "x");
    const Shape one{1, view.shape[1], view.shape[2], view.shape[3]};
    py::list parts;
    for (std::int64_t b = 0; b < view.shape[0]; ++b) {
      parts.append(result_of(layer->forward(ctx, view[b].reshape(one))));
    }
    return py::module_::import("numpy").attr("concatenate")(parts);
  };
}

// ---------------------------------------------------------------- TinyViT

decltype(TestLayer::run) make_conv_bn(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer =
      loaded(Conv2dBN(c["in"].cast<std::int64_t>(), c["out"].cast<std::int64_t>(),
                      {c["kernel"].cast<std::int64_t>(), c["stride"].cast<std::int64_t>(),
                       c["padding"].cast<std::int64_t>()}),
             w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    return result_of(layer->forward(ctx, view_of(x, "x")));
  };
}

decltype(TestLayer::run) make_pointwise_conv_bn(const py::dict& c, const Weights& w,
                                                const KernelTable& k) {
  const auto layer =
      loaded(PointwiseConvBN(c["in"].cast<std::int64_t>(), c["out"].cast<std::int64_t>()), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    return result_of(layer->forward(ctx, view_of(x, "x")));
  };
}

decltype(TestLayer::run) make_depthwise_conv_bn(const py::dict& c, const Weights& w,
                                                const KernelTable& k) {
  const auto layer =
      loaded(DepthwiseConvBN(c["channels"].cast<std::int64_t>(), c["size"].cast<std::int64_t>(),
                             c["stride"].cast<std::int64_t>()),
             w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    return result_of(layer->c.forward(ctx, view_of(x, "x")));
  };
}

decltype(TestLayer::run) make_mb_conv(const py::dict& c, const Weights& w, const KernelTable& k) {
  const auto layer = loaded(
      trunks::MBConv(c["channels"].cast<std::int64_t>(), c["hidden"].cast<std::int64_t>()), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    Tensor y(shape_of(x, "x"));
    layer->forward(ctx, view_of(x, "x"), y);
    return result_of(y);
  };
}

decltype(TestLayer::run) make_patch_merging(const py::dict& c, const Weights& w,
                                            const KernelTable& k) {
  const auto layer =
      loaded(trunks::PatchMerging(c["dim"].cast<std::int64_t>(), c["out_dim"].cast<std::int64_t>(),
                                  c["stride"].cast<std::int64_t>()),
             w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    return result_of(layer->forward(ctx, view_of(x, "x")));
  };
}

decltype(TestLayer::run) make_tiny_vit_block(const py::dict& c, const Weights& w,
                                             const KernelTable& k) {
  const trunks::TinyViTConfig config{.embed_dims = {c["dim"].cast<std::int64_t>()},
                                     .depths = {1},
                                     .num_heads = {c["num_heads"].cast<std::int64_t>()},
                                     .window_sizes = {c["window_size"].cast<std::int64_t>()}};
  const auto layer = loaded(trunks::TinyViTBlock(config, 0), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    Tensor y(shape_of(x, "x"));
    layer->forward(ctx, view_of(x, "x"), y);
    return result_of(y);
  };
}

decltype(TestLayer::run) make_tiny_vit(const py::dict& c, const Weights& w, const KernelTable& k) {
  sam::ImageEncoderConfig config{.img_size = c["img_size"].cast<std::int64_t>(),
                                 .out_chans = c["out_chans"].cast<std::int64_t>(),
                                 .tiny_vit = read_config<trunks::TinyViTConfig>(c)};
  config.patch_size = config.tiny_vit->stride();
  const auto layer = loaded(sam::TinyViTEncoder(config), w, k);
  return [layer](Context& ctx, const Arrays& in) {
    const Array<float> x = array_of(in, "x");
    return result_of(layer->forward(ctx, view_of(x, "x")));
  };
}

// ---------------------------------------------------------------- prompt encoder

decltype(TestLayer::run) make_prompt_encoder(const py::dict& c, const Weights& w,
                                             const KernelTable& k) {
  sam::PromptEncoderConfig config;
  config.embed_dim = get<std::int64_t>(c, "embed_dim", 256);
  config.image_embedding_size =
      get<std::pair<std::int64_t, std::int64_t>>(c, "image_embedding_size", {64, 64}).first;
  config.input_image_size =
      get<std::pair<std::int64_t, std::int64_t>>(c, "input_image_size", {1024, 1024}).first;
  config.mask_in_chans = get<std::int64_t>(c, "mask_in_chans", 16);
  const auto layer = loaded(sam::PromptEncoder(config), w, k);
  // points (B, N, 2), labels (B, N), boxes (B, 4), masks (B, S, S): any may be absent.
  return [layer](Context& ctx, const Arrays& in) -> py::object {
    const std::int64_t side = layer->config.image_embedding_size;
    Array<float> points, boxes, masks;
    Array<std::int32_t> labels;
    std::int64_t batch = 1;
    if (has(in, "points")) {
      points = array_of(in, "points");
      labels = in.at("labels").cast<Array<std::int32_t>>();
      batch = points.shape(0);
    }
    if (has(in, "boxes")) batch = (boxes = array_of(in, "boxes")).shape(0);
    if (has(in, "masks")) batch = (masks = array_of(in, "masks")).shape(0);
    py::list sparse;
    py::list dense;
    for (std::int64_t b = 0; b < batch; ++b) {
      std::vector<double> shifted;
      sam::Prompt prompt;
      const std::int64_t count = has(in, "points") ? points.shape(1) : 0;
      for (std::int64_t i = 0; i < 2 * count; ++i) {
        shifted.push_back(points.data()[b * 2 * count + i] + 0.5F);
      }
      const auto corners = static_cast<std::ptrdiff_t>(shifted.size());
      for (std::int64_t i = 0; has(in, "boxes") && i < 4; ++i) {
        shifted.push_back(boxes.data()[b * 4 + i] + 0.5F);
      }
      prompt.num_points = count;
      prompt.points = shifted.data();
      if (count > 0) prompt.labels = labels.data() + b * count;
      if (has(in, "boxes")) prompt.box = shifted.data() + corners;
      Tensor tokens({sam::PromptEncoder::num_tokens(prompt), layer->config.embed_dim});
      layer->embed_tokens(prompt, tokens);
      sparse.append(to_numpy(std::move(tokens)));
      if (has(in, "masks")) {
        dense.append(result_of(layer->embed_mask(ctx, view_of(masks, "masks")[b])[0]));
      } else {
        Tensor map({side, side, layer->config.embed_dim});
        for (std::int64_t i = 0; i < map.numel(); ++i) {
          map.data()[i] = layer->no_mask_embed.weight.data()[i % layer->config.embed_dim];
        }
        dense.append(to_numpy(std::move(map)));
      }
    }
    const py::object stack = py::module_::import("numpy").attr("stack");
    return py::make_tuple(stack(sparse), stack(dense), result_of(layer->dense_pe));
  };
}

// ---------------------------------------------------------------- decoder

decltype(TestLayer::run) make_two_way_block(const py::dict& c, const Weights& w,
                                            const KernelTable& k) {
  const auto layer = loaded(sam::TwoWayAttentionBlock(read_config<sam::TwoWayTransformerConfig>(c),
                                                      get<bool>(c, "skip_first_layer_pe", false)),
                            w, k);
  // `share` true: the map's projections are made once, as the first layer of the model does.
  return [layer](Context& ctx, const Arrays& in) -> py::object {
    const Array<float> queries = array_of(in, "queries");
    const Array<float> keys = array_of(in, "keys");
    const Array<float> query_pe = array_of(in, "query_pe");
    const Array<float> key_pe = array_of(in, "key_pe");
    const bool share = has(in, "share") && in.at("share").cast<bool>();
    Tensor out_queries = Tensor::copy_of(view_of(queries, "queries"));
    Tensor out_keys = Tensor::copy_of(view_of(keys, "keys"));
    for (std::int64_t b = 0; b < queries.shape(0); ++b) {
      sam::ProjectedMap projected;
      const ConstView map = view_of(keys, "keys")[b];
      const ConstView pe = view_of(key_pe, "key_pe")[key_pe.shape(0) == 1 ? 0 : b];
      if (share) layer->project_map(ctx, map, pe, projected);
      layer->forward_(ctx, out_queries.view()[b],
                      {view_of(query_pe, "query_pe")[b], map, pe, share ? &projected : nullptr},
                      out_keys.view()[b]);
    }
    return py::make_tuple(to_numpy(std::move(out_queries)), to_numpy(std::move(out_keys)));
  };
}

decltype(TestLayer::run) make_two_way_transformer(const py::dict& c, const Weights& w,
                                                  const KernelTable& k) {
  const auto layer =
      loaded(sam::TwoWayTransformer(read_config<sam::TwoWayTransformerConfig>(c)), w, k);
  // image_embedding, image_pe (B, H, W, C); point_embedding (B, N, C)
  return [layer](Context& ctx, const Arrays& in) -> py::object {
    const Array<float> map = array_of(in, "image_embedding");
    const Array<float> pe = array_of(in, "image_pe");
    const Array<float> tokens = array_of(in, "point_embedding");
    const Shape positions{map.shape(1) * map.shape(2), map.shape(3)};
    Tensor queries(shape_of(tokens, "point_embedding"));
    Tensor keys({map.shape(0), positions[0], positions[1]});
    for (std::int64_t b = 0; b < map.shape(0); ++b) {
      const ConstView image = view_of(map, "image_embedding")[b].reshape(positions);
      layer->forward_(ctx,
                      {image, view_of(pe, "image_pe")[pe.shape(0) == 1 ? 0 : b].reshape(positions),
                       view_of(tokens, "point_embedding")[b], nullptr},
                      queries.view()[b], keys.view()[b]);
    }
    return py::make_tuple(to_numpy(std::move(queries)), to_numpy(std::move(keys)));
  };
}

decltype(TestLayer::run) make_mask_decoder(const py::dict& c, const Weights& w,
                                           const KernelTable& k) {
  const auto config = read_config<sam::MaskDecoderConfig>(c);
  const auto layer = loaded(sam::MaskDecoder(config), w, k);
  // image_embeddings, image_pe (1, H, W, C); sparse_prompt_embeddings (B, N, C);
  // dense_prompt_embeddings (B, H, W, C); -> masks (B, K, 4H, 4W), iou (B, K)
  return [layer](Context& ctx, const Arrays& in) -> py::object {
    const Array<float> image = array_of(in, "image_embeddings");
    const Array<float> pe = array_of(in, "image_pe");
    const Array<float> sparse = array_of(in, "sparse_prompt_embeddings");
    const Array<float> dense = array_of(in, "dense_prompt_embeddings");
    const bool multimask = in.at("multimask_output").cast<bool>();
    const std::int64_t first = multimask ? 1 : 0;
    const std::int64_t count = multimask ? layer->config.num_multimask_outputs : 1;
    const std::int64_t batch = sparse.shape(0);
    Tensor masks({batch, count, 4 * image.shape(1), 4 * image.shape(2)});
    Tensor iou({batch, count});
    for (std::int64_t b = 0; b < batch; ++b) {
      const Workspace::Scope scratch(ctx.workspace);
      const View map = add(ctx, view_of(image, "image_embeddings")[0], view_of(dense, "dense")[b]);
      const sam::MaskDecoder::Decoded decoded =
          layer->decode(ctx, {map, view_of(pe, "image_pe"), view_of(sparse, "sparse")[b], nullptr},
                        {first, count});
      layer->predict_masks(ctx, decoded, first, masks.view()[b]);
      copy_(ctx, iou.view()[b], {decoded.iou_predictions.data + first, Shape{count}});
    }
    return py::make_tuple(to_numpy(std::move(masks)), to_numpy(std::move(iou)));
  };
}

decltype(TestLayer::run) make_mask_decoder_hq(const py::dict& c, const Weights& w,
                                              const KernelTable& k) {
  sam::MaskDecoderConfig sizes;
  sizes.hq = sam::HqConfig{};
  const auto config = read_config(c, sizes);
  const auto layer = loaded(sam::MaskDecoder(config), w, k);
  // As MaskDecoder; early (1, H, W, D), hq_token_only -> masks (B, 1, 4H, 4W), iou (B, 1),
  // hq_features (1, 4H, 4W, C / 8)
  return [layer](Context& ctx, const Arrays& in) -> py::object {
    const Array<float> image = array_of(in, "image_embeddings");
    const Array<float> early = array_of(in, "early");
    const Array<float> pe = array_of(in, "image_pe");
    const Array<float> sparse = array_of(in, "sparse_prompt_embeddings");
    const Array<float> dense = array_of(in, "dense_prompt_embeddings");
    const bool multimask = in.at("multimask_output").cast<bool>();
    const bool alone = in.at("hq_token_only").cast<bool>();
    const std::int64_t batch = sparse.shape(0);
    const std::int64_t height = 4 * image.shape(1), width = 4 * image.shape(2);
    Tensor masks({batch, 1, height, width}), iou({batch, 1});
    Tensor features({height, width, image.shape(3) / 8});
    layer->hq->image_features(ctx, view_of(image, "image_embeddings"), view_of(early, "early"),
                              features);
    for (std::int64_t b = 0; b < batch; ++b) {
      const Workspace::Scope scratch(ctx.workspace);
      const View map = add(ctx, view_of(image, "image_embeddings")[0], view_of(dense, "dense")[b]);
      const sam::MaskDecoder::Decoded decoded =
          layer->decode(ctx, {map, view_of(pe, "image_pe"), view_of(sparse, "sparse")[b], nullptr},
                        layer->hq_tokens(multimask ? 1 : 0));
      const std::int64_t best = multimask ? layer->best_multimask(decoded) : 0;
      layer->predict_hq_mask(ctx, decoded, features, alone ? std::nullopt : std::optional(best),
                             masks.view()[b][0]);
      iou.data()[b] = decoded.iou_predictions.data[best];
    }
    return py::make_tuple(to_numpy(std::move(masks)), to_numpy(std::move(iou)),
                          to_numpy(std::move(features)));
  };
}

}  // namespace

const Makers& sam_makers() {
  static const Makers table{
      {"layers.Conv2dBN", make_conv_bn},
      {"layers.DepthwiseConvBN", make_depthwise_conv_bn},
      {"layers.LayerNorm2d", make_layer_norm},
      {"layers.MLP", make_mlp},
      {"layers.PointwiseConvBN", make_pointwise_conv_bn},
      {"sam.Block", make_block},
      {"sam.ImageEncoderViT", make_image_encoder},
      {"trunks.MBConv", make_mb_conv},
      {"sam.MaskDecoder", make_mask_decoder},
      {"sam.MaskDecoderHQ", make_mask_decoder_hq},
      {"sam.Neck", make_neck},
      {"sam.PatchEmbed", make_patch_embed},
      {"trunks.PatchMerging", make_patch_merging},
      {"sam.PromptEncoder", make_prompt_encoder},
      {"sam.TinyViT", make_tiny_vit},
      {"trunks.TinyViTBlock", make_tiny_vit_block},
      {"sam.TwoWayAttentionBlock", make_two_way_block},
      {"sam.TwoWayTransformer", make_two_way_transformer},
  };
  return table;
}

namespace {

const Maker& maker_of(const std::string& name) {
  for (const Makers* const table :
       {&sam_makers(), &sam2_image_makers(), &sam2_memory_makers(), &sam2_heads_makers(),
        &sam3_detector_makers(), &sam3_image_makers(), &sam3_text_makers(), &sam3_tracker_makers(),
        &sam3_multiplex_makers()}) {
    if (const auto entry = table->find(name); entry != table->end()) return entry->second;
  }
  fail("layer", "a known layer", name);
}

}  // namespace

void register_layers(py::module_& m) {
  py::classh<TestLayer>(m, "Layer")
      .def("forward", &TestLayer::forward)
      .def("trace", &TestLayer::trace)
      .def_readwrite("num_threads", &TestLayer::num_threads)
      .def_property_readonly("workspace_bytes",
                             [](const TestLayer& x) { return x.workspace.capacity_bytes(); });
  m.def(
      "layer",
      [](const std::string& name, const py::dict& config, const Weights& state_dict,
         const std::optional<std::string>& isa, int num_threads) {
        auto layer = std::make_unique<TestLayer>();
        layer->kernels = &select_kernels(isa ? isa->c_str() : nullptr);
        layer->num_threads = num_threads;
        layer->run = maker_of(name)(config, state_dict, *layer->kernels);
        return layer;
      },
      py::arg("name"), py::arg("config"), py::arg("state_dict"), py::arg("isa") = py::none(),
      py::arg("num_threads") = 1);
}

}  // namespace sam_rlx
