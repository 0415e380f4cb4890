#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/context.h"
#include "core/in_use.h"
#include "loading/model.h"

namespace sam_rlx {

// Prompts of B images with P sets each, in pixels of the network's input. A set has points, a box,
// both or neither; a mask belongs to all sets of an image.
struct TensorPrompts {
  std::int64_t images = 1, sets = 1, num_points = 0;
  const double* point_coords = nullptr;        // (B, P, N, 2), x and y
  const std::int32_t* point_labels = nullptr;  // (B, P, N)
  const double* boxes = nullptr;               // (B, P, 4), xyxy
  // (B, S, S) logits. SAM 2: of any size, resized with antialias.
  ConstView masks = {};
};

// What is made of an image.
struct TensorEncoding {
  bool no_mem_embed = true;  // SAM 2: the embedding holds it
  bool all_maps = false;     // those that no decoder reads, too
};

// Which masks of the sets are asked for, and where what is made of them goes.
struct TensorJob {
  bool multimask_output = true, hq_token_only = false;
  std::optional<float> iou_threshold = {};  // masks whose IoU is not above it may stay as they are
  View masks;                               // (B, P, num_masks, S, S)
  View iou_scores;                          // (B, P, num_scores)
  View object_scores;                       // (B, P), or none: SAM has no such score
};

// Takes what a network takes and gives what it gives, for every family: tensors of several images
// at once, without an image's size. Values are not checked, and shapes by whoever calls.
// Upstream: transformers, SamModel, SamHQModel, Sam2Model and their likes.
class TensorPredictor {
 public:
  // Raises UnsupportedError when the model takes no clicks.
  static std::unique_ptr<TensorPredictor> make(std::shared_ptr<const Model> model, int num_threads);
  virtual ~TensorPredictor() = default;

  const Model& model() const { return *model_; }

  // Of one image: what encode gives, in this order. Maps have their channels first but for those
  // that `all_maps` adds.
  //   SAM     the image embedding
  //   SAM-HQ  the image embedding, and the trunk's first map from inside, or all of them
  //   SAM 2   two finer maps as the decoder takes them, finest first, the image embedding, and
  //           the trunk's coarsest map where all are asked for
  virtual std::vector<Shape> map_shapes(bool all_maps) const = 0;
  // Normalized images (B, 3, S, S) -> maps (B, ...).
  std::vector<Tensor> encode(ConstView pixel_values, const TensorEncoding& encoding);
  // Sines of the positions of each map that the decoder takes, (H, W, C); SAM has none.
  virtual std::vector<Tensor> position_encodings() const { return {}; }

  // Upstream's sparse_embeddings (B, P, T, C), and dense_embeddings (B, C, g, g), of which images
  // without a mask share the first.
  std::int64_t num_tokens(const TensorPrompts& prompts) const;
  std::int64_t embed_dim() const { return prompt_encoder().config.embed_dim; }
  void embed_prompts(const TensorPrompts& prompts, View out);
  Tensor dense_embeddings(const TensorPrompts& prompts);

  // Masks and scores of a set: several masks of a set, or one.
  std::int64_t num_scores(bool multimask_output) const;
  std::int64_t num_masks(bool multimask_output, bool hq_token_only) const;
  virtual bool has_object_scores() const { return false; }
  // `maps` as encode gives them without those that `all_maps` adds. SAM-HQ: the second is optional.
  void decode(std::span<const ConstView> maps, const TensorPrompts& prompts, const TensorJob& job);
  // The same in two steps, for many calls on one image: its maps, then prompts without masks. The
  // image stays until the next call of either.
  void set_maps(std::span<const ConstView> maps);
  void decode_sets(const TensorPrompts& prompts, const TensorJob& job);
  int num_threads() const { return static_cast<int>(workspaces_.size()); }

  void set_poll_interrupt(void (*poll)()) { poll_interrupt_ = poll; }

 protected:
  TensorPredictor(std::shared_ptr<const Model> model, int num_threads);

  // Normalized image (1, S, S, 3) -> maps of one image.
  virtual void encode_image(Context& ctx, ConstView image, const TensorEncoding& encoding,
                            std::span<const View> maps) const = 0;
  virtual const sam::PromptEncoder& prompt_encoder() const = 0;
  virtual std::int64_t num_multimask_outputs() const = 0;
  virtual bool has_hq_token() const { return false; }
  // The maps of one image, with its mask or none.
  virtual void adopt(Context& ctx, std::span<const ConstView> maps, ConstView mask) = 0;
  // One set of the adopted image: masks (M, S, S), iou (K,), and the object's score or null.
  struct SetOutputs {
    View masks;
    float* iou;
    float* object_score;
  };
  virtual void decode_set(Context& ctx, const sam::Prompt& prompt, const TensorJob& job,
                          const SetOutputs& out) const = 0;

  // The embedding (g, g, C) with its mask, as all sets of the image share it.
  void share(Context& ctx, const sam::TwoWayTransformer& transformer, ConstView embedding,
             ConstView mask, sam::SharedFeatures& out) const;

 private:
  View embed_mask(Context& ctx, ConstView mask) const;
  Context context(std::size_t thread, int num_threads);
  sam::Prompt prompt_of(Context& ctx, const TensorPrompts& prompts, std::int64_t set) const;
  // The sets of an image, whose first is `first`.
  void decode_image(const TensorPrompts& prompts, const TensorJob& job, std::int64_t first);
  void decode_one(Context& ctx, const TensorPrompts& prompts, const TensorJob& job,
                  std::int64_t set) const;

  std::shared_ptr<const Model> model_;
  std::vector<std::unique_ptr<Workspace>> workspaces_;  // one a thread
  void (*poll_interrupt_)() = nullptr;
  mutable BusyFlag busy_;
};

std::unique_ptr<TensorPredictor> make_sam_tensor_predictor(std::shared_ptr<const Model> model,
                                                           int num_threads);
std::unique_ptr<TensorPredictor> make_heads_tensor_predictor(std::shared_ptr<const Model> model,
                                                             int num_threads);

}  // namespace sam_rlx
