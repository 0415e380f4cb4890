void gelu_all(float* x, Index n) noexcept {
  Index i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    Vec v[4];
    each_vector(v, [&](Vec& y, int j) SAM_RLX_INLINED { y = load(x + i + j * kLanes); });
    gelu(v);
    each_vector(v, [&](Vec& y, int j) SAM_RLX_INLINED { store(x + i + j * kLanes, y); });
  }
  for (; i + kLanes <= n; i += kLanes) store(x + i, gelu(load(x + i)));
  if (i < n) store_n(x + i, gelu(load_n(x + i, n - i)), n - i);
}

float multiply_add_chains(Index rounds) noexcept {
  // Two multiply-adds of four cycles each at once leave 8 chains no room to wait: 12 with 16
  // registers, 16 with 32 (docs/optimizations.md: the roof). A round is 48 in each lane either way.
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
