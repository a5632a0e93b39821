// The definitions of all kernels, by family; kernels.cpp has the table.
#pragma once

namespace lockstep::reference {

class Operands;

// dense.cpp
void gemm(Operands& k);
void quantize(Operands& k);
void scaled_gemm(Operands& k);
void to_codes(Operands& k);
void from_codes(Operands& k);
void orthonormalize(Operands& k);
void largest(Operands& k);
void delayed_scale(Operands& k);
void column_sum(Operands& k);
// attention.cpp
void attention_forward(Operands& k);
void attention_backward(Operands& k);
void rope(Operands& k);
void join_latent(Operands& k);
void part_latent(Operands& k);
// norm.cpp
void layer_norm_forward(Operands& k);
void layer_norm_backward_input(Operands& k);
void layer_norm_backward_weight(Operands& k);
void rms_norm_forward(Operands& k);
void rms_norm_backward_input(Operands& k);
void rms_norm_backward_weight(Operands& k);
void head_norm_forward(Operands& k);
void head_norm_backward_input(Operands& k);
void head_norm_backward_weight(Operands& k);
// elementwise.cpp
void gelu_forward(Operands& k);
void gelu_backward(Operands& k);
void swiglu_forward(Operands& k);
void swiglu_backward(Operands& k);
void relu_forward(Operands& k);
void relu_backward(Operands& k);
void add(Operands& k);
void dropout(Operands& k);
void scale(Operands& k);
void fill(Operands& k);
void regroup(Operands& k);
void join_columns(Operands& k);
void part_columns(Operands& k);
// tokens.cpp
void embedding_forward(Operands& k);
void embedding_backward(Operands& k);
// loss.cpp
void cross_entropy(Operands& k);
void cross_entropy_stats(Operands& k);
void cross_entropy_parallel(Operands& k);
// optimizer.cpp
void sum(Operands& k);
void norm_squared(Operands& k);
void clip_coefficient(Operands& k);
void adamw(Operands& k);
void adam(Operands& k);
void router_bias(Operands& k);
void momentum(Operands& k);
void outer_sgd(Operands& k);
void factor_sums(Operands& k);
void factor_moments(Operands& k);
void factored_squares(Operands& k);
void adafactor(Operands& k);
void replica_term(Operands& k);
void normalize(Operands& k);
void muon(Operands& k);
void sgd(Operands& k);
// vision.cpp
void conv2d_forward(Operands& k);
void conv2d_backward_input(Operands& k);
void conv2d_backward_weight(Operands& k);
void max_pool_forward(Operands& k);
void max_pool_backward(Operands& k);
void average_pool_forward(Operands& k);
void average_pool_backward(Operands& k);
// batch_norm.cpp
void batch_norm_statistics(Operands& k);
void batch_norm_combine(Operands& k);
void batch_norm_running(Operands& k);
void batch_norm_forward(Operands& k);
void batch_norm_backward_sums(Operands& k);
void batch_norm_backward_input(Operands& k);
void batch_norm_backward_weight(Operands& k);
// experts.cpp
void grouped_gemm(Operands& k);
void grouped_gemm_weight(Operands& k);
void ragged_gemm(Operands& k);
void ragged_gemm_weight(Operands& k);
void ragged_quantize(Operands& k);
void ragged_scaled_gemm(Operands& k);
void ragged_scaled_gemm_weight(Operands& k);
void ragged_activation_forward(Operands& k);
void ragged_activation_backward(Operands& k);
void route_forward(Operands& k);
void route_backward(Operands& k);
void route_load(Operands& k);
void route_balance(Operands& k);
void combine_forward(Operands& k);
void combine_backward(Operands& k);
void gate_forward(Operands& k);
void gate_backward(Operands& k);

}  // namespace lockstep::reference
