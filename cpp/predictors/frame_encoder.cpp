#include "predictors/frame_encoder.h"

#include <utility>

#include "core/error.h"

namespace sam_rlx {
namespace {

class Sam2FrameEncoder final : public FrameEncoder {
 public:
  explicit Sam2FrameEncoder(std::shared_ptr<const Model> model) : model_(std::move(model)) {
    const sam2::Sam2Config& config = model_->sam2().config;
    transform_ = {config.heads.base.image_size, config.pixel_mean, config.pixel_std};
  }

  const sam2::Sam2Heads& heads() const override { return model_->sam2().heads; }
  SessionRules rules() const override { return {}; }
  ConstView vision_pos_enc() const override { return model_->sam2().image_encoder.vision_pos_enc; }
  void preprocess(Context& ctx, const ImageView& image, View input) const override {
    transform_.preprocess(ctx, image, input);
  }
  void forward_image(Context& ctx, ConstView input, bool, EncodedFrame& out) const override {
    model_->sam2().forward_image(ctx, input, out.features);
  }

 private:
  std::shared_ptr<const Model> model_;
  SquareTransform transform_;
};

class Sam3FrameEncoder final : public FrameEncoder {
 public:
  Sam3FrameEncoder(std::shared_ptr<const Model> model, ByteSquareTransform::Resize resize)
      : model_(std::move(model)) {
    const sam3::Sam3& network = model_->sam3();
    if (!network.tracker) {
      fail<UnsupportedError>("model", "a SAM 3 checkpoint with the tracker, which takes clicks",
                             "one of the detector alone");
    }
    const sam3::Sam3Config& config = network.config;
    transform_ = {config.vision.trunk.img_size, resize, config.pixel_mean, config.pixel_std};
  }

  const sam2::Sam2Heads& heads() const override { return model_->sam3().tracker->heads; }
  SessionRules rules() const override {
    return {
        .clicks_see_memory = false, .max_points = 16, .batched = true, .fill_video_masks = true};
  }
  ConstView vision_pos_enc() const override { return model_->sam3().vision().vision_pos_enc; }
  void preprocess(Context& ctx, const ImageView& image, View input) const override {
    transform_.preprocess(ctx, image, input);
  }
  void forward_image(Context& ctx, ConstView input, bool with_detector,
                     EncodedFrame& out) const override {
    model_->sam3().forward_image(
        ctx, input,
        {.detector = with_detector ? &out.detector : nullptr, .tracker = &out.features});
  }

 private:
  std::shared_ptr<const Model> model_;
  ByteSquareTransform transform_;
};

}  // namespace

std::unique_ptr<FrameEncoder> make_frame_encoder(const std::shared_ptr<const Model>& model,
                                                 ByteSquareTransform::Resize resize) {
  if (model->is_sam2()) return std::make_unique<Sam2FrameEncoder>(model);
  if (model->is_sam3()) return std::make_unique<Sam3FrameEncoder>(model, resize);
  fail<UnsupportedError>("VideoPredictor.model", "a model of SAM 2 or SAM 3", model->info().family);
}

}  // namespace sam_rlx
