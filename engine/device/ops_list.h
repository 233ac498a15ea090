/* ops_list.h - the list of operations: the name and the parameters of each, once for all devices. The table of a device
 * (table.h), the declarations of the kernels (cpu/cpu.h, cuda/cuda.h) and the rows of the tables (cpu/cpu.c,
 * cuda/cuda.c) are made from this list.
 *
 * A file must define OPERATION before it includes this list. If the file does not define FUSED, OPERATION is used in
 * its place. The list undefines OPERATION and FUSED at the end. OPERATION(name, parameters): every device that computes
 * has the operation; the function of a device is ce_<device>_<name>. FUSED(name, parameters): a device may leave the
 * operation out; ops.c then composes the operation of other operations.
 *
 * Operations that take a cs_device are those of cspeed/ops.h and work in the compute stream of the device. Operations
 * that take a cs_stream are those of state.h and the operation `add`; they work in the stream that they take. All
 * operations return void. ops.c and state.c check shapes and types before they call these functions.
 *
 * To add an operation: declare it in cspeed/ops.h, check its arguments in ops.c, add its line here, and write one
 * kernel for each device. */
#ifndef FUSED
#define FUSED OPERATION
#endif

/* clang-format off */
/* Computes product->c = op(a) op(b) + bias, or adds this to product->c. */
OPERATION(product, (cs_device *device, const ce_product *product))
/* Sets product->c to the product, and y to gelu(product->c). */
FUSED(product_gelu, (cs_device *device, cs_tensor y, const ce_product *product))
/* Sets product->c to the product times gelu'(pre). */
FUSED(product_gelu_grad, (cs_device *device, const ce_product *product, cs_tensor pre))
/* Computes the product, in which product->a is transposed. If of_a is true, adds the sum of each column of product->a
 * to `sums` (fp32), otherwise the sum of each column of product->b. */
FUSED(product_sums, (cs_device *device, const ce_product *product, cs_tensor sums, bool of_a))
/* Adds the sum of each column of x to `sums` (fp32). */
OPERATION(column_sums, (cs_device *device, cs_tensor sums, cs_tensor x))
OPERATION(norm, (cs_device *device, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight, cs_tensor bias,
                 float epsilon))
OPERATION(norm_grad, (cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dbias, cs_tensor dy, cs_tensor x,
                      cs_tensor stats, cs_tensor weight))
OPERATION(rms, (cs_device *device, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight, int64_t first,
                float epsilon))
OPERATION(rms_grad, (cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                     cs_tensor weight, int64_t first))
/* Writes sums (N, 1): the sum of x^2 over the `columns` columns of each row from `first` on, or, if dy is not absent, the
 * sum of dy weight x. */
OPERATION(rms_sums, (cs_device *device, cs_tensor sums, cs_tensor dy, cs_tensor x, cs_tensor weight, int64_t first,
                     int64_t columns))
OPERATION(rms_apply, (cs_device *device, cs_tensor y, cs_tensor stats, cs_tensor sums, cs_tensor x, cs_tensor weight,
                      int64_t first, int64_t whole, float epsilon))
OPERATION(rms_grad_apply, (cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dots, cs_tensor dy,
                           cs_tensor x, cs_tensor stats, cs_tensor weight, int64_t first, int64_t whole))
FUSED(add_norm, (cs_device *device, cs_tensor y, cs_tensor stats, const cs_addition *x, cs_tensor weight,
                 cs_tensor bias, float epsilon))
FUSED(add_rms, (cs_device *device, cs_tensor y, cs_tensor stats, const cs_addition *x, cs_tensor weight, float epsilon))
FUSED(norm_grad_add, (cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dbias, cs_tensor dy, cs_tensor x,
                      cs_tensor stats, cs_tensor weight, cs_tensor beside))
FUSED(rms_grad_add, (cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                     cs_tensor weight, cs_tensor beside))
OPERATION(rope, (cs_device *device, const ce_turn *turn))
OPERATION(gelu, (cs_device *device, cs_tensor y, cs_tensor x))
OPERATION(gelu_grad, (cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x))
OPERATION(swiglu, (cs_device *device, cs_tensor y, cs_tensor x))
OPERATION(swiglu_grad, (cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x))
OPERATION(activation, (cs_device *device, cs_tensor y, cs_tensor x, cs_activation function))
OPERATION(activation_grad, (cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x, cs_activation function))
OPERATION(gated, (cs_device *device, cs_tensor y, cs_tensor x, cs_activation function))
OPERATION(gated_grad, (cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x, cs_activation function))
OPERATION(clamped, (cs_device *device, cs_tensor y, cs_tensor x, cs_clamp clamp))
OPERATION(clamped_grad, (cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x, cs_clamp clamp))
OPERATION(softcap, (cs_device *device, cs_tensor y, cs_tensor x, float cap))
OPERATION(softcap_grad, (cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x, float cap))
/* If `back` is false, copies x to y and puts the heads into the order that cs_op_attention needs. If `back` is true,
 * copies x, whose heads have that order, and puts them into the original order. */
OPERATION(regroup, (cs_device *device, cs_tensor y, cs_tensor x, cs_heads heads, bool back))
OPERATION(route, (cs_device *device, const cs_routing *routing, cs_tensor factors, cs_tensor logits, bool normalized))
OPERATION(route_grad, (cs_device *device, cs_tensor dlogits, const cs_routing *routing, cs_tensor dfactors,
                       cs_tensor dprobabilities, cs_tensor logits, bool normalized))
OPERATION(take_slots, (cs_device *device, cs_tensor y, cs_tensor x, const cs_routing *routing))
OPERATION(add_slots, (cs_device *device, cs_tensor y, cs_tensor x, const cs_routing *routing))
/* Computes for each expert the product of its slots. job->product has the tensors of all experts. */
OPERATION(experts, (cs_device *device, const ce_experts *job))
OPERATION(expert_bias, (cs_device *device, cs_tensor y, cs_tensor bias, cs_tensor factors, const cs_routing *routing))
OPERATION(expert_bias_grad, (cs_device *device, cs_tensor dbias, cs_tensor dfactors, cs_tensor dy, cs_tensor bias,
                             cs_tensor factors, const cs_routing *routing))
OPERATION(scale_rows, (cs_device *device, cs_tensor y, cs_tensor x, cs_tensor factors, bool logistic))
OPERATION(scale_rows_grad, (cs_device *device, cs_tensor dx, cs_tensor dfactors, cs_tensor dy, cs_tensor x,
                            cs_tensor factors, bool logistic))
OPERATION(balance, (cs_device *device, const cs_balance *balance, cs_tensor loss, cs_tensor targets, cs_tensor dloss))
OPERATION(add, (cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b))
/* Computes y = a + dropout(b), or y = dropout(b) if a is absent. */
OPERATION(add_dropout, (cs_device *device, cs_tensor y, cs_tensor a, cs_tensor b, cs_dropout dropout))
OPERATION(add_noise, (cs_device *device, cs_tensor y, float size, cs_dropout dropout))
OPERATION(attention, (cs_device *device, const ce_attention_args *attention))
OPERATION(attention_grad, (cs_device *device, const ce_attention_args *attention))
OPERATION(sinks, (cs_device *device, cs_tensor y, cs_tensor lse, cs_tensor sinks))
OPERATION(sinks_grad, (cs_device *device, cs_tensor dsinks, cs_tensor dy, cs_tensor y, cs_tensor lse, cs_tensor sinks))
OPERATION(extend, (cs_device *device, const ce_extension *extension))
OPERATION(embed, (cs_device *device, cs_tensor y, cs_tensor tokens, cs_tensor table, int64_t first,
                  cs_tensor positions, cs_tensor starts))
OPERATION(embed_grad, (cs_device *device, cs_tensor dtable, int64_t first, cs_tensor dpositions, cs_tensor dy,
                       cs_tensor tokens, cs_tensor starts, int64_t padding))
OPERATION(cross_entropy, (cs_device *device, cs_tensor loss, cs_tensor logits, cs_tensor targets, int64_t classes,
                          cs_tensor dloss))
OPERATION(hits, (cs_device *device, cs_tensor hits, cs_tensor logits, cs_tensor targets, int64_t classes))
OPERATION(entropy_facts, (cs_device *device, cs_tensor facts, cs_tensor logits, cs_tensor targets, int64_t first,
                          int64_t classes))
OPERATION(entropy_finish, (cs_device *device, cs_tensor loss, cs_tensor hits, cs_tensor logits, cs_tensor targets,
                           int64_t first, int64_t classes, cs_tensor dloss, cs_tensor facts,
                           cs_entropy_terms terms))
/* The mean of an error over the columns of each row. */
OPERATION(error, (cs_device *device, cs_tensor loss, cs_tensor y, cs_tensor target, ce_error kind))
OPERATION(error_grad, (cs_device *device, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target, ce_error kind))
OPERATION(divergence, (cs_device *device, cs_tensor loss, cs_tensor y, cs_tensor target))
OPERATION(divergence_grad, (cs_device *device, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target))
OPERATION(dequantize, (cs_device *device, const ce_dequantize *job))
/* Adds scale * `narrow` to the columns of `wide` from column `first` on. If `takes` is true, sets `narrow` to scale
 * times these columns instead. */
OPERATION(columns, (cs_device *device, const ce_columns *job))
OPERATION(dora_norms, (cs_device *device, cs_tensor norms, const cs_dora *dora))
OPERATION(join_norms, (cs_device *device, cs_tensor norms, cs_tensor x))
OPERATION(dora, (cs_device *device, cs_tensor y, cs_tensor z, cs_tensor norms, const cs_dora *dora))
OPERATION(dora_grad, (cs_device *device, cs_tensor dy, cs_tensor dmagnitude, cs_tensor z, cs_tensor norms,
                      const cs_dora *dora))
OPERATION(broadcast, (cs_device *device, const ce_broadcast *job))
/* Writes sums (N, 1) = factor times the sum of each row. */
OPERATION(row_sums, (cs_device *device, cs_tensor sums, cs_tensor x, float factor))
/* In `scores`, no member is 0 that has a default. */
OPERATION(softmax, (cs_device *device, cs_tensor y, cs_tensor x, cs_softmax_scores scores))
OPERATION(softmax_grad, (cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor y))
OPERATION(transpose, (cs_device *device, cs_tensor y, cs_tensor x, int64_t batch, int64_t rows, int64_t columns))
/* In `shape`, no member is 0 that has a default. */
OPERATION(patches, (cs_device *device, cs_tensor columns, cs_tensor image, const cs_patches *shape))
OPERATION(patches_grad, (cs_device *device, cs_tensor dimage, cs_tensor dcolumns, const cs_patches *shape))
OPERATION(cast, (cs_device *device, cs_tensor y, cs_tensor x))
OPERATION(fill, (cs_device *device, cs_tensor y, float value))

OPERATION(sum_squares, (cs_stream *stream, ce_exact *sum, cs_tensor g, int64_t lead, double unscale))
OPERATION(sum, (cs_stream *stream, ce_exact *sum, const float *values, int64_t count))
OPERATION(add_counts, (cs_stream *stream, int64_t *sums, const int32_t *counts, int64_t count))
OPERATION(judge, (cs_stream *stream, ce_verdict *verdict, const ce_step_sums *words, const ce_step_terms *terms))
OPERATION(seed, (cs_stream *stream, cs_tensor dy, const double *scale, double divisor))
OPERATION(preference, (cs_stream *stream, const ce_preference_rows *rows))
OPERATION(convert, (cs_stream *stream, cs_tensor to, cs_tensor from, float factor))
OPERATION(update, (cs_stream *stream, const ce_optimizer *optimizer, ce_hyper hyper, const ce_state_rows *rows))
OPERATION(init, (cs_stream *stream, float *out, cs_init init, uint64_t key, ce_state_places places, int64_t count))
/* clang-format on */

#undef OPERATION
#undef FUSED
