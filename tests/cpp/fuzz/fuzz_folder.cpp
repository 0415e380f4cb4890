// libFuzzer target: a folder as transformers writes it. The first byte says what stands beside the
// weights, the next two how long it is: config.json, or the index of shards.

#include "fuzz_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kHead = 3;
  if (size < kHead) return 0;
  static const sam_rlx::fuzz::Folder folder;
  const std::span<const std::uint8_t> rest(data + kHead, size - kHead);
  const std::size_t length = std::min<std::size_t>(data[1] + 256U * data[2], rest.size());
  const bool sharded = data[0] % 2 == 1;
  for (const auto& item : std::filesystem::directory_iterator(folder.path())) {
    std::filesystem::remove(item);
  }
  folder.write(sharded ? "model.safetensors.index.json" : "config.json", rest.first(length));
  folder.write(sharded ? "a.safetensors" : "model.safetensors", rest.subspan(length));
  sam_rlx::fuzz::load(folder.path().string());
  return 0;
}
