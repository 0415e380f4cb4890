#pragma once

#include <string>
#include <vector>

namespace sam_rlx {

struct KernelTable;

// The tables that this build holds and this processor can run, best first; generic is last.
std::vector<const KernelTable*> available_kernels();

// Names of the tables that this build holds, whether or not the processor can run them.
std::vector<std::string> compiled_isas();

// The table named `name`; when null, the one that the environment variable SAM_RLX_ISA names, else
// the best one. Raises UnsupportedError with the list of those that can run.
const KernelTable& select_kernels(const char* name);

}  // namespace sam_rlx
