#pragma once

#include <string>
#include <string_view>

#include "checkpoint/state_dict.h"
#include "loading/key_map.h"
#include "models/sam3/sam3.h"

namespace sam_rlx {

// Of the detector; nothing reads it. transformers has it with its axes in the other order.
constexpr std::string_view kTextProjection =
    "detector.backbone.language_backbone.encoder.text_projection";

// What Sam3TrackerModel and Sam3TrackerVideoModel call their own parts without any prefix.
inline constexpr KeyRow kBareTrackerRows[] = {
    {"vision_encoder.backbone.", "detector_model.vision_encoder.backbone."},
    {"vision_encoder.neck.", "tracker_neck."},
    {"", "tracker_model."},
};

// The name in SAM 3's tracker of what SAM 2 names so.
std::string sam3_tracker_name(std::string_view sam2_name);

// The name in Meta's dialect of a tensor of Sam3VideoModel.
std::string sam3_meta_name(std::string_view name);

// Gives the tensors of transformers' Sam3VideoModel, or of its detector alone, Meta's names. What
// Meta has in one tensor, queries, keys and values of the detector, is joined.
void sam3_from_hugging_face(StateDict& state_dict);

// The reverse, in the hub's layout; a detector alone has no prefix. What transformers' classes have
// not is left out and reported.
void sam3_to_hugging_face(StateDict& state_dict, const sam3::Sam3Config& config);

// Meta's table of positions begins with a row for the class token, which the trunk cuts off before
// it reads the table. One without it gets zeros there.
void sam3_add_class_position(StateDict& state_dict);

}  // namespace sam_rlx
