#pragma once

#include "layers/layer.h"

namespace sam_rlx {

// A table of vectors. Upstream: torch.nn.Embedding.
struct Embedding {
  std::int64_t num_embeddings = 0, embedding_dim = 0;
  Tensor weight;  // (num_embeddings, embedding_dim)

  Embedding() = default;
  Embedding(std::int64_t count, std::int64_t dim) : num_embeddings(count), embedding_dim(dim) {}

  void visit(ParamVisitor& v) { v("weight", weight, {num_embeddings, embedding_dim}); }
};

}  // namespace sam_rlx
