#include "predictors/concept/text_cache.h"

#include "core/error.h"

namespace sam_rlx {
namespace {

std::span<const std::int64_t> key_of(const sam3::TokenIds& ids, std::int64_t i) {
  return {ids.text(i), static_cast<std::size_t>(ids.valid_length(i))};
}

}  // namespace

const std::vector<const TextCache::Text*>& TextCache::get(Context& ctx,
                                                          const sam3::VETextEncoder& encoder,
                                                          const sam3::TokenIds& ids) {
  if (ids.count > static_cast<std::int64_t>(kTexts)) {
    fail_internal("a batch of " + std::to_string(ids.count) + " texts");
  }
  const Workspace::Scope scratch(ctx.workspace);
  auto* const missing = ctx.workspace.array<std::int64_t>(std::max<std::int64_t>(ids.count, 1) *
                                                          std::max<std::int64_t>(ids.length, 1));
  sam3::TokenIds absent{missing, 0, ids.length};
  ++clock_;
  for (std::int64_t i = 0; i < ids.count; ++i) {
    const auto position = entries_.find(key_of(ids, i));
    if (position == entries_.end()) {
      std::copy_n(ids.text(i), ids.length, missing + absent.count++ * ids.length);
    } else {
      position->second.last_use = clock_;
    }
  }
  if (absent.count > 0) encode(ctx, encoder, absent);
  found_.clear();
  for (std::int64_t i = 0; i < ids.count; ++i) {
    found_.push_back(&entries_.find(key_of(ids, i))->second);
  }
  return found_;
}

void TextCache::encode(Context& ctx, const sam3::VETextEncoder& encoder,
                       const sam3::TokenIds& ids) {
  const sam3::TextFeatures features = encoder.forward(ctx, ids);
  for (std::int64_t i = 0; i < ids.count; ++i) {
    const KeyView key = key_of(ids, i);
    if (entries_.find(key) != entries_.end()) continue;  // twice in the batch
    Text text{.tokens = Tensor::copy_of(features.text(i)),
              .padding = std::make_unique<bool[]>(key.size()),
              .last_use = clock_};
    std::copy_n(features.text_padding(i), key.size(), text.padding.get());
    if (entries_.size() >= kTexts) drop_oldest();
    entries_.emplace(Key(key.begin(), key.end()), std::move(text));
  }
}

void TextCache::drop_oldest() {
  entries_.erase(std::min_element(
      entries_.begin(), entries_.end(),
      [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; }));
}

}  // namespace sam_rlx
