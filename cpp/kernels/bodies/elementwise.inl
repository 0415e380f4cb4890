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
