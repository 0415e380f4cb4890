#include "loading/heads_config.h"

#include "loading/config_reader.h"

namespace sam_rlx {
namespace {

// Whether a head has more than its first layer.
bool has_several(const StateDict& state_dict, const std::string& head) {
  return state_dict.contains(head + "layers.1.weight") ||
         !state_dict.contains(head + "layers.0.weight");
}

void read_decoder(const StateDict& state_dict, const HeadsNames& names,
                  sam2::MaskDecoderConfig& decoder) {
  const std::string name = names.prefix + "sam_mask_decoder.";
  const std::string layers = name + "transformer.layers.";
  const std::string iou = name + "iou_prediction_head.layers.";
  const std::string hidden = layers + "0." + names.first_linear + "weight";
  sam::TwoWayTransformerConfig& t = decoder.transformer;
  t.embedding_dim = size_of(required_tensor(state_dict, name + "iou_token.weight", 2), 1);
  t.depth = count_of(state_dict, layers, ".norm1.weight");
  t.mlp_dim = size_of(required_tensor(state_dict, hidden, 2), 0);
  decoder.num_multimask_outputs =
      size_of(required_tensor(state_dict, name + "mask_tokens.weight", 2), 0) - 1;
  decoder.iou_head_depth = count_of(state_dict, iou, ".weight");
  decoder.pred_obj_scores_mlp = has_several(state_dict, name + "pred_obj_score_head.");
  decoder.iou_head_hidden_dim = size_of(required_tensor(state_dict, iou + "0.weight", 2), 0);
}

void read_memory(const StateDict& state_dict, const HeadsNames& names, sam2::HeadsConfig& heads) {
  const TensorEntry& times = required_tensor(state_dict, names.prefix + "maskmem_tpos_enc", 4);
  heads.memory_bank.num_maskmem = size_of(times, 0);
  heads.base.use_mlp_for_obj_ptr_proj = has_several(state_dict, names.prefix + "obj_ptr_proj.");
  sam2::MemoryEncoderConfig& encoder = heads.memory_encoder;
  encoder.in_dim = heads.hidden_dim();
  encoder.out_dim = size_of(times, 3);
  encoder.fuser_layers =
      count_of(state_dict, names.prefix + names.memory_encoder + "fuser.layers.", ".gamma");
  sam2::MemoryAttentionConfig& attention = heads.memory_attention;
  const std::string layers = names.prefix + names.memory_attention + "layers.";
  attention.d_model = heads.hidden_dim();
  attention.kv_in_dim = encoder.out_dim;
  attention.num_layers = count_of(state_dict, layers, ".norm1.weight");
  attention.dim_feedforward =
      size_of(required_tensor(state_dict, layers + "0.linear1.weight", 2), 0);
}

}  // namespace

void read_heads(const StateDict& state_dict, const HeadsNames& names, sam2::HeadsConfig& heads) {
  read_decoder(state_dict, names, heads.mask_decoder);
  const std::string prompts = names.prefix + "sam_prompt_encoder.";
  heads.base.mask_in_chans =
      size_of(required_tensor(state_dict, prompts + "mask_downscaling.3.weight", 4), 0);
  read_memory(state_dict, names, heads);
}

void check_released_heads(const sam2::HeadsConfig& heads, const HeadsNames& names,
                          const std::string& source) {
  const sam2::HeadsConfig known;
  if (heads.hidden_dim() != known.hidden_dim()) return;
  const auto check = [&](const std::string& part, std::int64_t expected, std::int64_t found) {
    if (expected == found) return;
    fail<CheckpointError>(source + ": " + names.prefix + part,
                          std::to_string(expected) + " layers, as every release has at width " +
                              std::to_string(known.hidden_dim()),
                          std::to_string(found));
  };
  check("sam_mask_decoder.transformer.layers", known.mask_decoder.transformer.depth,
        heads.mask_decoder.transformer.depth);
  check("sam_mask_decoder.iou_prediction_head.layers", known.mask_decoder.iou_head_depth,
        heads.mask_decoder.iou_head_depth);
  check(names.memory_attention + "layers", known.memory_attention.num_layers,
        heads.memory_attention.num_layers);
  check(names.memory_encoder + "fuser.layers", known.memory_encoder.fuser_layers,
        heads.memory_encoder.fuser_layers);
}

bool heads_fit(const sam2::HeadsConfig& heads, std::int64_t channels) {
  const sam::TwoWayTransformerConfig& t = heads.mask_decoder.transformer;
  const std::int64_t inner = t.embedding_dim / t.attention_downsample_rate;
  return t.embedding_dim == channels && t.embedding_dim % 8 == 0 && inner % t.num_heads == 0 &&
         t.embedding_dim % t.num_heads == 0 && heads.base.mask_in_chans % 4 == 0 &&
         t.embedding_dim % heads.mem_dim() == 0 && heads.mem_dim() % 4 == 0;
}

}  // namespace sam_rlx
