#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "checkpoint/state_dict.h"
#include "checkpoint/torch_state.h"

namespace sam_rlx {

// Reads what torch.save writes since PyTorch 1.6: a zip archive with a pickle and one stored entry
// for each storage. The entries point into `bytes`.
StateDict read_torch_archive(std::span<const std::byte> bytes, const std::string& where,
                             const ChooseDict& choose = choose_largest);

}  // namespace sam_rlx
