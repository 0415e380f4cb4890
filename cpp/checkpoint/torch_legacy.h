#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "checkpoint/state_dict.h"
#include "checkpoint/torch_state.h"

namespace sam_rlx {

// Reads what torch.save wrote before PyTorch 1.6: a row of pickles (magic number, protocol
// version, system, object, storage keys), then for each storage its length and its elements. The
// entries point into `bytes`.
StateDict read_torch_legacy(std::span<const std::byte> bytes, const std::string& where,
                            const ChooseDict& choose = choose_largest);

}  // namespace sam_rlx
