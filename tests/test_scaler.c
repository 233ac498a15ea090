/* test_scaler.c - the loss scale's state machine, against traces of DeepSpeed's. */
#include "optim/scaler.h"
#include "suite.h"

#include <string.h>

static const cs_scaler_settings small = {
    .initial_scale_power = 8, .loss_scale_window = 2, .hysteresis = 2, .min_loss_scale = 1};

/* A '1' is an overflow. */
static void run(const char *flags, const double *scales, cs_scaler_settings settings)
{
    cs_scaler scaler;
    cs_scaler_open(&scaler, &settings, true);
    for (int i = 0; flags[i]; i++) {
        ck_assert_int_eq(cs_scaler_judge(&scaler, &settings, flags[i] == '1', NULL), CS_OK);
        ck_assert_msg(scaler.scale == scales[i], "%s, step %d: %g, not %g", flags, i, scaler.scale, scales[i]);
    }
}

START_TEST(test_growth)
{
    run("00000", (double[]){256, 256, 512, 512, 1024}, small);
}
END_TEST

START_TEST(test_hysteresis)
{
    run("11100001011", (double[]){256, 128, 64, 64, 64, 128, 128, 128, 128, 64, 32}, small);
    run("10101", (double[]){256, 256, 128, 128, 64}, small);
}
END_TEST

START_TEST(test_consecutive)
{
    cs_scaler_settings settings     = small;
    settings.consecutive_hysteresis = true;
    run("10101", (double[]){256, 256, 256, 256, 256}, settings);
}
END_TEST

START_TEST(test_minimum)
{
    cs_scaler_settings settings = small;
    cs_scaler          scaler;
    settings.hysteresis          = 1;
    settings.initial_scale_power = 2;
    run("11", (double[]){2, 1}, settings);
    cs_scaler_open(&scaler, &settings, true);
    ck_assert_int_eq(cs_scaler_judge(&scaler, &settings, true, NULL), CS_OK);
    ck_assert_int_eq(cs_scaler_judge(&scaler, &settings, true, NULL), CS_OK);
    ck_assert_int_eq(cs_scaler_judge(&scaler, &settings, true, NULL), CS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(cs_error(), "smallest loss scale, 1"));
}
END_TEST

START_TEST(test_fractional_minimum)
{
    cs_scaler_settings settings  = small;
    settings.hysteresis          = 1;
    settings.initial_scale_power = 0;
    settings.min_loss_scale      = 0.3;
    run("11", (double[]){0.5, 0.3}, settings);
}
END_TEST

/* DeepSpeed never lowers such a scale. */
START_TEST(test_no_hysteresis)
{
    cs_scaler_settings settings = small;
    settings.hysteresis         = 0;
    run("11", (double[]){128, 64}, settings);
}
END_TEST

START_TEST(test_static)
{
    cs_scaler_settings settings = small;
    const char        *said;
    cs_scaler          scaler;
    settings.loss_scale = 1024;
    run("0110000", (double[]){1024, 1024, 1024, 1024, 1024, 1024, 1024}, settings);
    cs_scaler_open(&scaler, &settings, false); /* fp32, bf16 */
    ck_assert(scaler.scale == 1 && !scaler.dynamic);
    ck_assert_int_eq(cs_scaler_judge(&scaler, &settings, true, &said), CS_OK);
    ck_assert(scaler.scale == 1);
}
END_TEST

START_TEST(test_said)
{
    const char *said;
    cs_scaler   scaler;
    cs_scaler_open(&scaler, &small, true);
    ck_assert_int_eq(cs_scaler_judge(&scaler, &small, true, &said), CS_OK);
    ck_assert_ptr_nonnull(strstr(said, "Attempted loss scale: 256, but hysteresis is 2. Reducing hysteresis to 1"));
    ck_assert_int_eq(cs_scaler_judge(&scaler, &small, true, &said), CS_OK);
    ck_assert_ptr_nonnull(strstr(said, "Attempted loss scale: 256, reducing to 128"));
    ck_assert_int_eq(cs_scaler_judge(&scaler, &small, false, &said), CS_OK);
    ck_assert_str_eq(said, "");
}
END_TEST

START_TEST(test_stays_finite)
{
    cs_scaler_settings settings  = small;
    settings.initial_scale_power = 125;
    settings.loss_scale_window   = 1;
    run("0000", (double[]){0x1p125, 0x1p126, 0x1p126, 0x1p126}, settings);
}
END_TEST

SUITE_MAIN("scaler", test_growth, test_hysteresis, test_consecutive, test_minimum, test_fractional_minimum,
           test_no_hysteresis, test_static, test_said, test_stays_finite)
