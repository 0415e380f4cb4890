// The chains, written once over Vec.
float multiply_add_chains(Index rounds) noexcept {
  // Two multiply-adds of four cycles each at once leave 8 chains no room to wait: 12 with 16
  // registers, 16 with 32 (docs/develop/optimizations.md: the roof). A round is 48 in each lane
  // either way.
  constexpr int kChains = kLanes <= 8 ? 12 : 16;
  Vec chain[kChains];
  for_each<kChains>([&](auto i) { chain[i.value] = set1(static_cast<float>(i.value)); });
  const Vec factor = set1(0.999F);
  const Vec term = set1(0.001F);
  for (Index round = 0; round < rounds * (48 / kChains); ++round) {
    for_each<kChains>([&](auto i) { chain[i.value] = fma(chain[i.value], factor, term); });
  }
  for_each<kChains - 1>(
      [&](auto i) { chain[kChains - 1] = add(chain[kChains - 1], chain[i.value]); });
  return reduce_add(chain[kChains - 1]);
}
