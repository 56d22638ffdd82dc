/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "perf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef PACKAGE_VERSION
#  define PACKAGE_VERSION "unknown"
#endif

#define MAX_COLUMNS 16
#define MAX_VALUE   64 /* Characters of a number */

#define NANOSECONDS 1000000000ull

#define MAX_LINKS 40 /* One after the other; as many as Linux follows */

#define NUM_ELEMENTS(_array) (sizeof(_array) / sizeof((_array)[0]))


typedef enum field_type {
    TYPE_CHARS, /* An array in the result */
    TYPE_TEXT,
    TYPE_UNIT, /* Is the same for all results */
    TYPE_UNSIGNED,
    TYPE_WINDOW, /* Latencies have none */
    TYPE_SIZE,
    TYPE_UINT64,
    TYPE_DOUBLE,
    TYPE_RATE /* Is one of time, and there may be none */
} field_type_t;


/* What is written of a result: under a name in files, in this order, and in a column of a
 * table */
typedef struct field {
    const char *name;
    field_type_t type;
    size_t offset;             /* In perf_result_t */
    const char *group, *title; /* Neighbours with the same group share it */
    int width;                 /* At least; 0: as wide as group and title */
    int decimals;              /* In tables */
} field_t;


typedef struct table {
    const field_t *columns[MAX_COLUMNS];
    int widths[MAX_COLUMNS];
    unsigned num_columns;
} table_t;


static struct {
    const perf_opts_t *opts;
    int is_exact; /* Instructions are counted instead of time */
    table_t table;

    /* For tables and files that are written at the end */
    perf_result_t *rows;
    size_t num_rows, max_rows;

    /* The file, NULL: none. It has the name temp until it is complete; no temp: is
     * written directly. */
    FILE *file;
    int is_stdout; /* Is what stdout was, instead of tables */
    char *path, *temp;
    pid_t pid; /* Who has to remove temp, 0: nobody */

    /* Of progress */
    int is_running;
    uint64_t last_time;
    double last_done;
} report;

/* What stdout was, where results are written to it: report.file from the first result on */
static FILE *results_stdout;

/* Titles with the unit */
static char times_title[32], cpu_title[16];

// clang-format off
enum {
    FIELD_TEST, FIELD_TL, FIELD_DEVICE, FIELD_SIZE, FIELD_ITERS, FIELD_ROUNDS,
    FIELD_WINDOW, FIELD_EPS, FIELD_UNIT, FIELD_MEAN, FIELD_P50, FIELD_P90,
    FIELD_P99, FIELD_P999, FIELD_BANDWIDTH, FIELD_RATE, FIELD_RATIO,
    FIELD_WORK_REQUESTS, FIELD_DOORBELLS, FIELD_RECEIVES, FIELD_SEND_COMPS,
    FIELD_RECV_COMPS, FIELD_PACKETS, FIELD_CONTROLS, FIELD_RNR, FIELD_CPU,
    FIELD_MEMORY, FIELD_LAST
};

#define FIELD(_name, _type, _member, ...) \
    { _name, TYPE_##_type, offsetof(perf_result_t, _member), __VA_ARGS__ }

static const field_t fields[] = {
    [FIELD_TEST]          = FIELD("test", CHARS, test, "", "test", 16, 0),
    [FIELD_TL]            = FIELD("transport", TEXT, tl, "", "transport", 0, 0),
    [FIELD_DEVICE]        = FIELD("device", TEXT, device, "", "", 0, 0),
    [FIELD_SIZE]          = FIELD("size", SIZE, size, "", "size", 9, 0),
    [FIELD_ITERS]         = FIELD("iterations", UINT64, iters, "", "# iterations", 0, 0),
    [FIELD_ROUNDS]        = FIELD("rounds", UNSIGNED, rounds, "", "", 0, 0),
    [FIELD_WINDOW]        = FIELD("window", WINDOW, window, "", "", 0, 0),
    [FIELD_EPS]           = FIELD("endpoints", UNSIGNED, num_eps, "", "", 0, 0),
    [FIELD_UNIT]          = FIELD("unit", UNIT, test, "", "", 0, 0),
    [FIELD_MEAN]          = FIELD("mean", DOUBLE, mean, times_title, "mean", 9, 3),
    [FIELD_P50]           = FIELD("p50", DOUBLE, p50, times_title, "50%", 9, 3),
    [FIELD_P90]           = FIELD("p90", DOUBLE, p90, times_title, "90%", 9, 3),
    [FIELD_P99]           = FIELD("p99", DOUBLE, p99, times_title, "99%", 9, 3),
    [FIELD_P999]          = FIELD("p99.9", DOUBLE, p999, times_title, "99.9%", 9, 3),
    [FIELD_BANDWIDTH]     = FIELD("bandwidth_mb_s", RATE, bandwidth, "bandwidth", "(MB/s)", 9, 2),
    [FIELD_RATE]          = FIELD("rate_op_s", RATE, rate, "rate", "(op/s)", 9, 0),
    [FIELD_RATIO]         = FIELD("ratio", DOUBLE, ratio, "ratio", "to first", 0, 3),
    [FIELD_WORK_REQUESTS] = FIELD("work_requests", DOUBLE, work_requests, "work", "requests", 0, 3),
    [FIELD_DOORBELLS]     = FIELD("doorbells", DOUBLE, doorbells, "", "doorbells", 0, 3),
    [FIELD_RECEIVES]      = FIELD("receives", DOUBLE, receives, "receives", "posted", 0, 3),
    [FIELD_SEND_COMPS]    = FIELD("send_completions", DOUBLE, send_comps, "send", "completions", 0, 3),
    [FIELD_RECV_COMPS]    = FIELD("receive_completions", DOUBLE, recv_comps, "receive", "completions", 0, 3),
    [FIELD_PACKETS]       = FIELD("packets", DOUBLE, packets, "", "packets", 8, 3),
    [FIELD_CONTROLS]      = FIELD("control_messages", DOUBLE, controls, "flow control", "messages", 0, 3),
    [FIELD_RNR]           = FIELD("rnr_naks", DOUBLE, rnr, "RNR NAKs", "(total)", 0, 0),
    [FIELD_CPU]           = FIELD("server_cpu_us", DOUBLE, server_cpu, "receiver CPU", cpu_title, 0, 3),
    [FIELD_MEMORY]        = FIELD("endpoint_bytes", DOUBLE, ep_memory, "endpoint", "(bytes)", 0, 0)
};
// clang-format on

static const unsigned char result_columns[] = {
    FIELD_TEST, FIELD_TL,   FIELD_SIZE, FIELD_ITERS,     FIELD_P50,  FIELD_P90,
    FIELD_P99,  FIELD_P999, FIELD_MEAN, FIELD_BANDWIDTH, FIELD_RATE, FIELD_RATIO
};

static const unsigned char count_columns[] = {
    FIELD_TEST,     FIELD_SIZE,       FIELD_WORK_REQUESTS, FIELD_DOORBELLS,
    FIELD_RECEIVES, FIELD_SEND_COMPS, FIELD_RECV_COMPS,    FIELD_PACKETS,
    FIELD_CONTROLS, FIELD_RNR,        FIELD_CPU,           FIELD_MEMORY
};


static const char *unit(void)
{
    return report.is_exact ? "kinstr" : "usec";
}

/* Results go to stdout in another form */
static int has_tables(void)
{
    return !report.is_stdout;
}

static int is_text(const field_t *field)
{
    return field->type <= TYPE_UNIT;
}

static const char *double_text(double value, int decimals, char *buffer)
{
    if (!isfinite(value)) {
        return NULL;
    }

    if (decimals < 0) {
        snprintf(buffer, MAX_VALUE, "%.9g", value);
    } else {
        snprintf(buffer, MAX_VALUE, "%.*f", decimals, value);
    }
    return buffer;
}

static const char *integer_text(uint64_t value, char *buffer)
{
    snprintf(buffer, MAX_VALUE, "%" PRIu64, value);
    return buffer;
}

/* A value as text, in the buffer if it is a number; no decimals (-1): as many digits as
 * matter. @return NULL if it is not known. */
static const char *value_text(const field_t *field, const perf_result_t *result,
                              int decimals, char *buffer)
{
    const void *value = (const char *)result + field->offset;

    switch (field->type) {
    case TYPE_CHARS:
        return value;
    case TYPE_TEXT:
        return *(const char *const *)value;
    case TYPE_UNIT:
        return unit();
    case TYPE_WINDOW:
        if (*(const unsigned *)value == 0) {
            return NULL;
        }
        /* Fall through */
    case TYPE_UNSIGNED:
        return integer_text(*(const unsigned *)value, buffer);
    case TYPE_SIZE:
        return integer_text(*(const size_t *)value, buffer);
    case TYPE_UINT64:
        return integer_text(*(const uint64_t *)value, buffer);
    case TYPE_RATE:
        if (report.is_exact) {
            return NULL;
        }
        /* Fall through */
    case TYPE_DOUBLE:
        return double_text(*(const double *)value, decimals, buffer);
    }

    return NULL;
}


/*
 * Tables
 */

static int max_int(int a, int b)
{
    return (a > b) ? a : b;
}

/* As wide as titles, and those texts that are known now: all jobs have the same tests */
static int column_width(const field_t *field, const perf_result_t *results,
                        size_t count)
{
    int width = max_int(field->width, strlen(field->title));
    char buffer[MAX_VALUE];
    size_t i;

    if (field->width == 0) {
        width = max_int(width, strlen(field->group));
    }
    for (i = 0; is_text(field) && (i < count); ++i) {
        width = max_int(width,
                        strlen(value_text(field, &results[i], 0, buffer)));
    }
    return width;
}

static void init_table(table_t *table, const unsigned char *columns,
                       unsigned num_columns, const perf_result_t *results,
                       size_t count)
{
    unsigned i;

    table->num_columns = num_columns;
    for (i = 0; i < num_columns; ++i) {
        table->columns[i] = &fields[columns[i]];
        table->widths[i]  = column_width(table->columns[i], results, count);
    }
}

/* @return The first column after the group that one belongs to */
static unsigned group_end(const table_t *table, unsigned first, int *width_p)
{
    const char *group = table->columns[first]->group;
    unsigned i        = first;

    *width_p = table->widths[i++];
    while ((i < table->num_columns) && (*group != '\0') &&
           !strcmp(table->columns[i]->group, group)) {
        *width_p += 3 + table->widths[i++];
    }

    return i;
}

static void print_border(const table_t *table, int is_grouped)
{
    unsigned i = 0;
    int width;

    while (i < table->num_columns) {
        if (is_grouped) {
            i = group_end(table, i, &width);
        } else {
            width = table->widths[i++];
        }

        putchar('+');
        for (width += 2; width > 0; --width) {
            putchar('-');
        }
    }
    puts("+");
}

static void print_centred(const char *text, int width)
{
    int before = (width - (int)strlen(text)) / 2;

    printf("| %*s%-*s ", before, "", width - before, text);
}

static void print_header(const table_t *table)
{
    unsigned i = 0;
    unsigned first;
    int width;

    print_border(table, 1);
    while (i < table->num_columns) {
        first = i;
        i     = group_end(table, i, &width);
        print_centred(table->columns[first]->group, width);
    }
    puts("|");

    for (i = 0; i < table->num_columns; ++i) {
        print_centred(table->columns[i]->title, table->widths[i]);
    }
    puts("|");
    print_border(table, 0);
}

static void print_row(const table_t *table, const perf_result_t *result)
{
    char buffer[MAX_VALUE];
    const field_t *field;
    const char *text;
    unsigned i;

    for (i = 0; i < table->num_columns; ++i) {
        field = table->columns[i];
        text  = value_text(field, result, field->decimals, buffer);
        printf(is_text(field) ? "| %-*s " : "| %*s ", table->widths[i],
               (text != NULL) ? text : "-");
    }
    puts("|");
}

/* The first table begins with the first results */
static void begin_table(const perf_result_t *results, unsigned count)
{
    unsigned num_columns = NUM_ELEMENTS(result_columns);

    snprintf(times_title, sizeof(times_title), "%s (%s)",
             (results[0].window != 0) ? "overhead" : "latency", unit());
    if (!report.opts->compare) {
        --num_columns; /* No ratio, which is the last one */
    }

    init_table(&report.table, result_columns, num_columns, results, count);
    print_header(&report.table);
}

static int is_known(unsigned index)
{
    char buffer[MAX_VALUE];
    size_t i;

    for (i = 0; i < report.num_rows; ++i) {
        if (value_text(&fields[index], &report.rows[i], 0, buffer) != NULL) {
            return 1;
        }
    }

    return 0;
}

/* The second table, below the first one; nothing if there is nothing to tell */
static void print_counts(void)
{
    unsigned num_columns = NUM_ELEMENTS(count_columns);
    int is_any           = 0;
    table_t table;
    size_t i;

    for (i = FIELD_WORK_REQUESTS; i < FIELD_LAST; ++i) {
        is_any |= is_known(i);
    }
    if (!is_any) {
        return;
    }

    snprintf(cpu_title, sizeof(cpu_title), "(%s)", unit());
    if (!is_known(FIELD_MEMORY)) {
        --num_columns; /* It is the last one */
    }

    init_table(&table, count_columns, num_columns, report.rows,
               report.num_rows);
    puts("\nper operation, both sides:");
    print_header(&table);
    for (i = 0; i < report.num_rows; ++i) {
        print_row(&table, &report.rows[i]);
    }
    print_border(&table, 0);
}


/*
 * CSV and JSON
 */

static void write_csv_text(const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, report.file);
        return;
    }

    fputc('"', report.file);
    for (; *text != '\0'; ++text) {
        if (*text == '"') {
            fputc('"', report.file);
        }
        fputc(*text, report.file);
    }
    fputc('"', report.file);
}

static void write_csv_header(void)
{
    unsigned i;

    for (i = 0; i < FIELD_LAST; ++i) {
        fprintf(report.file, "%s%s", (i > 0) ? "," : "", fields[i].name);
    }
    fputc('\n', report.file);
}

static void write_csv(const perf_result_t *result)
{
    char buffer[MAX_VALUE];
    const char *text;
    unsigned i;

    for (i = 0; i < FIELD_LAST; ++i) {
        if (i > 0) {
            fputc(',', report.file);
        }
        text = value_text(&fields[i], result, -1, buffer);
        write_csv_text((text != NULL) ? text : "");
    }
    fputc('\n', report.file);
}

static void write_json_text(const char *text)
{
    fputc('"', report.file);
    for (; *text != '\0'; ++text) {
        if ((*text == '"') || (*text == '\\')) {
            fprintf(report.file, "\\%c", *text);
        } else if ((unsigned char)*text < ' ') {
            fprintf(report.file, "\\u%04x", *text);
        } else {
            fputc(*text, report.file);
        }
    }
    fputc('"', report.file);
}

static void write_json_result(const perf_result_t *result)
{
    char buffer[MAX_VALUE];
    const char *text;
    unsigned i;

    fputs("    {", report.file);
    for (i = 0; i < FIELD_LAST; ++i) {
        fputs((i > 0) ? ", " : "", report.file);
        write_json_text(fields[i].name);
        fputs(": ", report.file);
        text = value_text(&fields[i], result, -1, buffer);
        if ((text != NULL) && is_text(&fields[i])) {
            write_json_text(text);
        } else {
            fputs((text != NULL) ? text : "null", report.file);
        }
    }
    fputc('}', report.file);
}

static void write_json(void)
{
    size_t i;

    fputs("{\n  \"tool\": \"wimm_perftest\",\n  \"version\": ", report.file);
    write_json_text(PACKAGE_VERSION);
    fputs(",\n  \"unit\": ", report.file);
    write_json_text(unit());
    fputs(",\n  \"results\": [", report.file);
    for (i = 0; i < report.num_rows; ++i) {
        fputs((i > 0) ? ",\n" : "\n", report.file);
        write_json_result(&report.rows[i]);
    }
    fputs("\n  ]\n}\n", report.file);
}


/*
 * The file
 */

static char *copy_text(const char *text)
{
    return strcpy(perf_alloc(strlen(text) + 1), text);
}

static void fail_file(const char *what)
{
    if (report.is_stdout) {
        perf_fail("cannot %s results to stdout: %s", what, strerror(errno));
    }
    perf_fail("cannot %s the file of results '%s': %s", what, report.opts->file,
              strerror(errno));
}

/* What was not finished is not left behind; processes that were forked have the same
 * handler, and must not do it */
static void remove_temp(void)
{
    if (report.pid == getpid()) {
        unlink(report.temp);
    }
}

static void remove_temp_on_signal(int signal_number)
{
    remove_temp();
    raise(signal_number); /* Has its default action again, once this returns */
}

/* Those that are meant to end a process, if the caller has not had them ignored */
static void catch_signals(void)
{
    static const int numbers[] = { SIGHUP,  SIGINT,  SIGQUIT,
                                   SIGPIPE, SIGTERM, SIGXCPU };
    struct sigaction action    = { .sa_handler = remove_temp_on_signal,
                                   .sa_flags   = SA_RESETHAND };
    struct sigaction old;
    size_t i;

    for (i = 0; i < NUM_ELEMENTS(numbers); ++i) {
        if (!sigaction(numbers[i], NULL, &old) && (old.sa_handler == SIG_DFL)) {
            sigaction(numbers[i], &action, NULL);
        }
    }
}

/* What a link leads to, also where nothing is yet */
static char *follow_links(const char *name)
{
    char *path = copy_text(name), *next;
    char target[PATH_MAX];
    ssize_t length;
    size_t dir;
    int i;

    for (i = 0; i < MAX_LINKS; ++i) {
        length = readlink(path, target, sizeof(target) - 1);
        if (length < 0) {
            break;
        }
        target[length] = '\0';
        next           = strrchr(path, '/');
        dir  = ((next == NULL) || (*target == '/')) ? 0 : (next + 1 - path);
        next = perf_alloc(dir + length + 1);
        memcpy(next, path, dir);
        strcpy(next + dir, target);
        free(path);
        path = next;
    }
    return path;
}

/* A regular file, or none yet (mode 0): a temporary one will be given its name */
static void open_temp(const char *name, mode_t mode)
{
    size_t length;

    report.path = follow_links(name);
    length      = strlen(report.path) + 32;
    report.temp = perf_alloc(length);
    snprintf(report.temp, length, "%s.tmp.%d", report.path, (int)getpid());
    report.pid = getpid();
    unlink(report.temp); /* Another machine's process, or one of long ago */
    report.file = fopen(report.temp, "wxe");
    if (report.file == NULL) {
        fail_file("create");
    }
    if ((mode != 0) && fchmod(fileno(report.file), mode & 07777)) {
        fail_file("create");
    }
    atexit(remove_temp);
    catch_signals();
}

static void open_file(const char *name)
{
    struct stat st = { .st_mode = 0 };

    if (results_stdout != NULL) {
        report.is_stdout = 1;
        report.file      = results_stdout;
        return;
    }

    if (stat(name, &st) || S_ISREG(st.st_mode)) {
        if (access(name, W_OK) && (errno != ENOENT)) {
            fail_file("write");
        }
        open_temp(name, st.st_mode);
        return;
    }

    report.file = fopen(name, "we");
    if (report.file == NULL) {
        fail_file("open");
    }
}

/* Nothing is kept in buffers, where a fork would double it */
static void flush_output(void)
{
    if (fflush(stdout) || ferror(stdout)) {
        perf_fail("cannot write results to stdout: %s", strerror(errno));
    }

    if ((report.file != NULL) && (fflush(report.file) || ferror(report.file))) {
        fail_file("write");
    }
}

static void close_file(void)
{
    FILE *file  = report.file;
    report.file = NULL;

    if (file == NULL) {
        return;
    }
    if (fclose(file)) {
        fail_file("write");
    }
    if (report.temp == NULL) {
        return;
    }

    if (rename(report.temp, report.path)) {
        fail_file("rename");
    }
    report.pid = 0; /* Nothing to remove */
}


/*
 * What perf_run.c calls
 */

void perf_report_init(const perf_opts_t *opts)
{
    int fd;

    if ((opts->format == PERF_FORMAT_NONE) || strcmp(opts->file, "-")) {
        return;
    }

    fflush(stdout);
    fd             = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    results_stdout = (fd < 0) ? NULL : fdopen(fd, "w");
    if ((results_stdout == NULL) || (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)) {
        perf_fail("cannot write results to stdout: %s", strerror(errno));
    }
}

void perf_report_open(const perf_opts_t *opts)
{
    const char *exact = getenv("WIMM_VM_EXACT");

    memset(&report, 0, sizeof(report));
    report.opts     = opts;
    report.is_exact = (exact != NULL) && !strcmp(exact, "y");
    if (opts->format == PERF_FORMAT_NONE) {
        return;
    }

    open_file(opts->file);
    if (opts->format == PERF_FORMAT_CSV) {
        write_csv_header();
    }
    flush_output();
}

static void keep_row(const perf_result_t *result)
{
    perf_result_t *row;

    if (report.num_rows == report.max_rows) {
        report.max_rows = (report.max_rows * 2) + PERF_MAX_TESTS;
        report.rows     = realloc(report.rows,
                                  report.max_rows * sizeof(*report.rows));
        if (report.rows == NULL) {
            perf_fail("no memory for %zu results: measure fewer sizes at once",
                      report.max_rows);
        }
    }

    /* The job's texts may not live until the end */
    row         = &report.rows[report.num_rows++];
    *row        = *result;
    row->tl     = copy_text(result->tl);
    row->device = copy_text(result->device);
}

void perf_report(const perf_result_t *results, unsigned num_results)
{
    unsigned i;

    report.is_running = 0;
    if (num_results == 0) {
        return;
    }

    if (has_tables() && (report.num_rows == 0)) {
        begin_table(results, num_results);
    }

    for (i = 0; i < num_results; ++i) {
        keep_row(&results[i]);
        if (report.opts->format == PERF_FORMAT_CSV) {
            write_csv(&results[i]);
        }
        if (has_tables()) {
            print_row(&report.table, &results[i]);
        }
    }
    flush_output();
}

void perf_report_progress(double done, uint64_t now)
{
    /* A server reports nothing */
    if ((report.opts == NULL) || report.opts->quiet) {
        return;
    }

    if (!report.is_running || (done < report.last_done)) {
        report.is_running = 1; /* A new job */
        report.last_time  = now;
    } else if (now - report.last_time >= NANOSECONDS) {
        report.last_time = now;
        fprintf(stderr, "# %.0f %% done\n", done * 100);
    }
    report.last_done = done;
}

void perf_report_close(void)
{
    if (has_tables() && (report.num_rows > 0)) {
        print_border(&report.table, 0);
        print_counts();
    }
    if (report.opts->format == PERF_FORMAT_JSON) {
        write_json();
    }
    flush_output();
    close_file();
}
