#include "checkpoint/key_map_gguf.h"

#include <array>
#include <span>
#include <vector>

#include "checkpoint/key_map.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

// From short beginnings to Meta's. The first row that fits is taken, in both directions.
constexpr KeyRow kSamShort[] = {
    {"v.", "image_encoder."},
    {"p.pe_layer.gauss", "prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"},
    {"p.", "prompt_encoder."},
    {"d.l.{i}.", "mask_decoder.transformer.layers.{i}."},
    {"d.hyper.", "mask_decoder.output_hypernetworks_mlps."},
    {"d.", "mask_decoder."},
};

constexpr KeyRow kSam2Short[] = {
    {"v.", "image_encoder.trunk."},
    {"vn.", "image_encoder.neck.convs."},
    {"p.pe_layer.gauss", "sam_prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"},
    {"p.", "sam_prompt_encoder."},
    {"d.l.{i}.", "sam_mask_decoder.transformer.layers.{i}."},
    {"d.hyper.", "sam_mask_decoder.output_hypernetworks_mlps."},
    {"d.", "sam_mask_decoder."},
    {"ma.", "memory_attention."},
    {"me.", "memory_encoder."},
};

constexpr KeyRow kSam3Short[] = {
    {"v.", "detector.backbone.vision_backbone.trunk."},
    {"vn.", "detector.backbone.vision_backbone.convs."},
    {"vn2.", "detector.backbone.vision_backbone.sam2_convs."},
    {"t.resizer.", "detector.backbone.language_backbone.resizer."},
    {"t.l.{i}.", "detector.backbone.language_backbone.encoder.transformer.resblocks.{i}."},
    {"t.", "detector.backbone.language_backbone.encoder."},
    {"g.", "detector.geometry_encoder."},
    {"fe.", "detector.transformer.encoder."},
    {"fd.", "detector.transformer.decoder."},
    {"s.", "detector.segmentation_head."},
    {"sc.", "detector.dot_prod_scoring."},
    {"tr.p.pe_layer.gauss",
     "tracker.sam_prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"},
    {"tr.p.", "tracker.sam_prompt_encoder."},
    {"tr.d.l.{i}.", "tracker.sam_mask_decoder.transformer.layers.{i}."},
    {"tr.d.hyper.", "tracker.sam_mask_decoder.output_hypernetworks_mlps."},
    {"tr.d.", "tracker.sam_mask_decoder."},
    {"tr.ma.", "tracker.transformer.encoder."},
    {"tr.me.", "tracker.maskmem_backbone."},
    {"tr.", "tracker."},
};

std::span<const KeyRow> rows_of(const std::string& family) {
  if (family == "sam") return kSamShort;
  if (family == "sam2") return kSam2Short;
  if (family == "sam3") return kSam3Short;
  fail_internal("no short names for the family " + family);
}

}  // namespace

std::string to_short_name(const std::string& family, std::string_view meta_name) {
  std::vector<KeyRow> rows;
  for (const KeyRow& row : rows_of(family)) rows.push_back({row.to, row.from});
  return map_key(rows, meta_name).value_or(std::string(meta_name));
}

std::string from_short_name(const std::string& family, std::string_view short_name) {
  return map_key(rows_of(family), short_name).value_or(std::string(short_name));
}

}  // namespace sam_rlx
