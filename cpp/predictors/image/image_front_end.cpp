#include "predictors/image/image_front_end.h"

#include <utility>

#include "core/error.h"
#include "ops/elementwise.h"

namespace sam_rlx {
namespace {

class SamFrontEnd final : public ImageFrontEnd {
 public:
  explicit SamFrontEnd(std::shared_ptr<const Model> model) : ImageFrontEnd(std::move(model)) {
    const sam::SamConfig& config = network().config;
    transform_ = {config.image_encoder.img_size, config.pixel_mean, config.pixel_std};
  }

  std::int64_t side() const override { return transform_.side; }
  Size input_hw(Size orig_hw) const override { return transform_.resized_hw(orig_hw); }

 private:
  const sam::Sam& network() const { return model().sam(); }
  void preprocess(Context& ctx, const ImageView& image, Resize, View input) const override {
    transform_.preprocess(ctx, image, input);
  }
  void forward_image(Context& ctx, ConstView input, const Outputs& out) const override {
    const sam::Sam::ImageMaps maps = network().forward_image(ctx, input);
    keep(ctx, maps.embedding[0], out.clicks->embedding);
    if (maps.hq_features.data != nullptr) keep(ctx, maps.hq_features, *out.hq_features);
  }
  static void keep(Context& ctx, ConstView map, Tensor& kept) {
    if (kept.shape() != map.shape) kept = Tensor(map.shape);
    copy_(ctx, kept, map);
  }

  ImageTransform transform_;
};

class Sam2FrontEnd final : public ImageFrontEnd {
 public:
  explicit Sam2FrontEnd(std::shared_ptr<const Model> model) : ImageFrontEnd(std::move(model)) {
    const sam2::Sam2Config& config = network().config;
    transform_ = {config.heads.base.image_size, config.pixel_mean, config.pixel_std};
  }

  bool has_sam2_heads() const override { return true; }
  std::int64_t side() const override { return transform_.side; }
  const sam2::Sam2Heads& heads() const override { return network().heads; }
  ConstView vision_pos_enc() const override { return network().image_encoder.vision_pos_enc; }

 private:
  const sam2::Sam2& network() const { return model().sam2(); }
  void preprocess(Context& ctx, const ImageView& image, Resize resize, View input) const override {
    if (resize == Resize::kFloat) return transform_.preprocess(ctx, image, input);
    const ByteSquareTransform bytes{.side = side(),
                                    .resize = resize,
                                    .mean = transform_.mean,
                                    .std = transform_.std,
                                    .multiplies = false};
    bytes.preprocess(ctx, image, input);
  }
  void forward_image(Context& ctx, ConstView input, const Outputs& out) const override {
    network().forward_image(ctx, input, *out.clicks);
  }

  SquareTransform transform_;
};

class Sam3FrontEnd final : public ImageFrontEnd {
 public:
  explicit Sam3FrontEnd(std::shared_ptr<const Model> model) : ImageFrontEnd(std::move(model)) {}

  void check(Resize) const override {}
  bool has_sam2_heads() const override { return true; }
  std::int64_t side() const override { return network().config.vision.trunk.img_size; }
  const sam2::Sam2Heads& heads() const override {
    if (!network().tracker) {
      fail<UnsupportedError>("model", "a SAM 3 checkpoint with the tracker, which takes clicks",
                             "one of the detector alone");
    }
    return network().tracker->heads;
  }
  const sam3::MultiplexTracker* multiplex() const override {
    return network().multiplex ? &*network().multiplex : nullptr;
  }
  ConstView vision_pos_enc() const override { return network().vision().vision_pos_enc; }

 private:
  const sam3::Sam3& network() const { return model().sam3(); }
  void preprocess(Context& ctx, const ImageView& image, Resize resize, View input) const override {
    const sam3::Sam3Config& config = network().config;
    const ByteSquareTransform bytes{
        .side = side(), .resize = resize, .mean = config.pixel_mean, .std = config.pixel_std};
    bytes.preprocess(ctx, image, input);
  }
  void forward_image(Context& ctx, ConstView input, const Outputs& out) const override {
    network().forward_image(
        ctx, input, {.detector = out.detector, .tracker = out.clicks, .multiplex = out.buckets});
  }
};

// One for each kind of network.
struct Maker {
  const std::shared_ptr<const Model>& model;
  using Made = std::unique_ptr<const ImageFrontEnd>;
  Made operator()(const sam::Sam&) const { return std::make_unique<SamFrontEnd>(model); }
  Made operator()(const sam2::Sam2&) const { return std::make_unique<Sam2FrontEnd>(model); }
  Made operator()(const sam3::Sam3&) const { return std::make_unique<Sam3FrontEnd>(model); }
};

}  // namespace

std::unique_ptr<const ImageFrontEnd> ImageFrontEnd::make(
    const std::shared_ptr<const Model>& model) {
  return std::visit(Maker{model}, model->network());
}

void ImageFrontEnd::check(Resize resize) const {
  if (resize == Resize::kFloat) return;
  fail("resize", "\"float\" for family " + model_->info().family, "\"integer\"");
}

void ImageFrontEnd::encode(Context& ctx, const ImageView& image, Resize resize,
                           const Outputs& out) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View input = ctx.workspace.floats({1, side(), side(), 3});
  preprocess(ctx, image, resize, input[0]);
  forward_image(ctx, input, out);
}

void ImageFrontEnd::encode_input(Context& ctx, ConstView input, const Outputs& out) const {
  const Workspace::Scope scratch(ctx.workspace);
  forward_image(ctx, input.reshape({1, side(), side(), 3}), out);
}

const sam2::Sam2Heads& ImageFrontEnd::heads() const {
  fail<UnsupportedError>("model", "a model of SAM 2 or SAM 3", model_->info().family);
}

ConstView ImageFrontEnd::vision_pos_enc() const {
  fail<UnsupportedError>("model", "a model of SAM 2 or SAM 3", model_->info().family);
}

}  // namespace sam_rlx
