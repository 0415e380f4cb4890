#pragma once

#include <string>
#include <variant>

#include "layers/batch_norm.h"
#include "layers/conv.h"
#include "models/sam3/vit.h"
#include "models/trunks/rep_vit.h"
#include "models/trunks/tiny_vit.h"

// Upstream of all: EfficientSAM3's sam3/model_builder.py.

namespace sam_rlx::sam3 {

// conv2(gelu(norm(conv1(x)))), and bilinear to other sides. Upstream: ImageStudentEncoder.head.
struct StudentHead {
  Conv2d conv1;    // 0: 1x1, without bias until it is folded
  BatchNorm norm;  // 1
  Conv2d conv2;    // 3: 3x3
  std::string path;

  StudentHead() = default;
  StudentHead(std::int64_t in_chans, std::int64_t embed_dim);
  void visit(ParamVisitor& v);
  void fold() { norm.fold_into({conv1.weight, conv1.bias}); }
  void forward(Context& ctx, ConstView x, View out) const;  // (1, h, w, in) -> (1, H, W, embed_dim)
};

// A trunk as ViT, of another network. Upstream: ImageStudentEncoder, in _create_student_vision_
// backbone's wrappers.
struct StudentTrunk {
  ViTConfig config;

  std::variant<trunks::RepVit, trunks::TinyViT> backbone;
  StudentHead head;
  std::string path;

  // Raises InternalError without sizes of a student.
  explicit StudentTrunk(const ViTConfig& sizes);
  void visit(ParamVisitor& v);
  // Normalized image (1, S, S, 3) -> its map (1, g, g, C), in the scope of the caller.
  View forward(Context& ctx, ConstView image) const;
};

using Trunk = std::variant<ViT, StudentTrunk>;

}  // namespace sam_rlx::sam3
