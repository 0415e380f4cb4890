// libFuzzer target: any bytes as the file of a model: format, family, names, sizes and weights.

#include "fuzz_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const sam_rlx::fuzz::Folder folder;
  sam_rlx::fuzz::load(folder.write("model", {data, size}));
  return 0;
}
