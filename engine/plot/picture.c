/* picture.c - writes diagrams into a file as SVG, HTML or PNG. */
#include "base/ends_with.h"
#include "base/status.h"
#include "plot/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

cs_plot_form cs_plot_form_of(const char *path)
{
    return ce_ends_with(path, ".svg")    ? CS_PLOT_SVG
           : ce_ends_with(path, ".html") ? CS_PLOT_HTML
           : ce_ends_with(path, ".png")  ? CS_PLOT_PNG
                                         : CS_PLOT_NO_FORM;
}

/* Opens a program that makes a PNG of the SVG that it reads. If the program fails, its shell reads the rest. */
static FILE *open_png(const char *path)
{
    static const char line[] =
        "rsvg-convert --zoom=2 --output=\"$CSPEED_PNG\" || { code=$?; cat >/dev/null; exit $code; }";
    return setenv("CSPEED_PNG", path, 1) == 0 ? popen(line, "w") : NULL;
}

cs_status cs_plot_write(const char *path, cs_plot_form form, const char *title, const cs_plot *plots, int count)
{
    FILE *file = form == CS_PLOT_PNG ? open_png(path) : fopen(path, "w");
    if (file && form == CS_PLOT_HTML)
        ce_plot_html(file, title, plots, count);
    else if (file)
        ce_plot_svg(file, plots, count);
    bool good = file && !ferror(file);
    int code = !file ? -1 : form == CS_PLOT_PNG ? pclose(file) : fclose(file);
    if (form == CS_PLOT_PNG && code != 0)
        return ce_fail(CS_IO_ERROR,
                       "%s cannot be written by the program rsvg-convert, which makes a PNG; it is in Debian's package "
                       "librsvg2-bin; --svg and --html need no program",
                       path);
    if (!good || code != 0)
        return ce_fail(CS_IO_ERROR, "%s cannot be written: %s", path, strerror(errno));
    return CS_OK;
}
