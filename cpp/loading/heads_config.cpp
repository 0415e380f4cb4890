#include "loading/heads_config.h"

#include "loading/config_reader.h"

namespace sam_rlx {
namespace {

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
  decoder.iou_head_hidden_dim = size_of(required_tensor(state_dict, iou + "0.weight", 2), 0);
}

void read_memory(const StateDict& state_dict, const HeadsNames& names, sam2::HeadsConfig& heads) {
  const TensorEntry& times = required_tensor(state_dict, names.prefix + "maskmem_tpos_enc", 4);
  heads.memory_bank.num_maskmem = size_of(times, 0);
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

bool heads_fit(const sam2::HeadsConfig& heads, std::int64_t channels) {
  const sam::TwoWayTransformerConfig& t = heads.mask_decoder.transformer;
  const std::int64_t inner = t.embedding_dim / t.attention_downsample_rate;
  return t.embedding_dim == channels && t.embedding_dim % 8 == 0 && inner % t.num_heads == 0 &&
         t.embedding_dim % t.num_heads == 0 && heads.base.mask_in_chans % 4 == 0 &&
         t.embedding_dim % heads.mem_dim() == 0 && heads.mem_dim() % 4 == 0;
}

}  // namespace sam_rlx
