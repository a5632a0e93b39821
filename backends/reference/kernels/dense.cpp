// Products of matrices.
#include "backends/reference/kernels/definitions.hpp"
#include "backends/reference/kernels/operands.hpp"

namespace lockstep::reference {

Matrix product(const Eigen::Ref<const Matrix>& a, const Eigen::Ref<const Matrix>& b) {
  return (a.matrix() * b.matrix()).array();
}

void gemm(Operands& k) {
  const Index m = k.dim(0), n = k.dim(1), inner = k.dim(2);
  const bool ta = k.dim(3) != 0, tb = k.dim(4) != 0;
  const View a = k.in(0, ta ? inner : m), b = k.in(1, tb ? n : inner);
  Matrix c = ta   ? tb ? product(a.transpose(), b.transpose()) : product(a.transpose(), b)
               : tb ? product(a, b.transpose())
                  : product(a, b);
  if (k.has_in(2)) c.rowwise() += k.in(2).row(0);
  if (k.has_in(3)) c += k.in(3, m);
  k.set(k.out(0, m), c);
}

void column_sum(Operands& k) { k.set(k.out(0), k.in(0, k.dim(0)).colwise().sum()); }

}  // namespace lockstep::reference
