/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "perf_opts.h"

#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#ifndef PACKAGE_VERSION
#  define PACKAGE_VERSION "unknown"
#endif

#define MAX_ITERS  1000000000ul
#define MAX_ROUNDS 100ul /* No more than iterations at any size */
#define MAX_WINDOW 255ul /* A byte counts operations in flight */

/* What a server may be told; the client decides about everything else */
#define SERVER_OPTIONS "dpcTq"


/* Options without a letter */
enum {
    OPT_FORK = UCHAR_MAX + 1,
    OPT_COMPARE,
    OPT_SAME_TLS,
    OPT_LAST
};


typedef struct parse {
    perf_opts_t *opts;
    const char *device;            /* As given, NULL: the first one */
    unsigned char given[OPT_LAST]; /* Which options were */
    int client_option;             /* The first that is not a server's */
} parse_t;


const char *perf_kind_names[] = { [PERF_KIND_LAT] = "lat",
                                  [PERF_KIND_MR]  = "mr",
                                  [PERF_KIND_BW]  = "bw" };

static const char *layout_names[] = { [PERF_LAYOUT_AUTO]  = "auto",
                                      [PERF_LAYOUT_SHORT] = "short",
                                      [PERF_LAYOUT_BCOPY] = "bcopy",
                                      [PERF_LAYOUT_ZCOPY] = "zcopy" };

static const struct option long_options[] = {
    { "fork", no_argument, NULL, OPT_FORK },
    { "compare", required_argument, NULL, OPT_COMPARE },
    { "same-tls", no_argument, NULL, OPT_SAME_TLS },
    { "rounds", required_argument, NULL, 'r' },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, 'V' },
    { NULL, 0, NULL, 0 }
};

static const char usage[] =
        "usage: wimm_perftest [OPTIONS]             wait for the other side (server)\n"
        "       wimm_perftest [OPTIONS] HOST        connect to it, and measure (client)\n"
        "       wimm_perftest -l|--fork [OPTIONS]   both sides here\n"
        "\n"
        "  -l             both sides in one process\n"
        "  --fork         both sides, in two processes\n"
        "  -t TEST        what to measure (ucp_put_imm_lat)\n"
        "  --compare A,B,...\n"
        "                 measure several tests in turns, all of one kind\n"
        "  -d DEVICE      like rxe0:1, or rxe0 for its port 1 (the first active port)\n"
        "  -x TL          transport of tests that are stock UCX (rc_verbs)\n"
        "  --same-tls     the same as -x wimm\n"
        "  -n N           operations of each test (10000 up to 1 KiB, 1000 up to 64 KiB,\n"
        "                 100 above)\n"
        "  -w N           operations before, to warm up (a tenth of -n)\n"
        "  -s SIZE        bytes, with k, m or g for KiB, MiB or GiB (8; of _bw: 64k)\n"
        "  -s FROM:TO[:xN|:+SIZE]\n"
        "                 several sizes, each N times the one before, or SIZE more (x2)\n"
        "  -W N           operations in flight in a stream, up to 255 (64): with -l those\n"
        "                 that have not arrived, in two processes those that have not\n"
        "                 completed at the client, which does not bound UCX where it\n"
        "                 completes them at once, but does bound raw_*\n"
        "  -r, --rounds N\n"
        "                 rounds that compared tests take in turns (by what is measured)\n"
        "  -e N           endpoints, used in turn (1)\n"
        "  -D short|bcopy|zcopy\n"
        "                 how uct_put_imm gives its data (as short as it can)\n"
        "  -p PORT        TCP port of the server (13347)\n"
        "  -c LIST        CPUs to run on, like 0,2-3; with --fork the first is the\n"
        "                 server's, the second the client's\n"
        "  -T SECONDS     fail if nothing arrives for so long (60), or comes from the\n"
        "                 other side\n"
        "  -N             do not count work requests, completions and packets\n"
        "  -o csv|json FILE\n"
        "                 write results to FILE too; -: to stdout, instead of tables\n"
        "  -q             print results only\n"
        "  -V             print the version\n"
        "  -h             print this\n"
        "\n"
        "A server takes -d, -p, -c, -T and -q; the client decides about the rest. Both\n"
        "have to be of the same version: the server says if the client is not, and the\n"
        "client then says that the other side has ended.\n"
        "\n"
        "Of what is counted, packets include acknowledgements and flow control, so that\n"
        "a short write has two; RNR NAKs are those of all rounds; - is not known.\n"
        "\n"
        "A TEST is one of these, and _lat for latency (which may be left out), _mr for\n"
        "the rate or _bw for the bandwidth of a stream of operations:\n";


/* Below the tests */
static const char notes[] =
        "\n"
        "(*) In a stream of two processes one in W / 4 / endpoints, if that is less: 1 in\n"
        "16 with -W 64.\n";


static const char *option_name(int option)
{
    static char name[] = "-?";

    switch (option) {
    case OPT_FORK:
        return "--fork";
    case OPT_COMPARE:
        return "--compare";
    case OPT_SAME_TLS:
        return "--same-tls";
    default:
        name[1] = option;
        return name;
    }
}


/*
 * Tests
 */

static const perf_method_t *method_find(const char *name, size_t length)
{
    const perf_method_t **method;

    for (method = perf_methods; *method != NULL; ++method) {
        if ((strlen((*method)->name) == length) &&
            !memcmp((*method)->name, name, length)) {
            return *method;
        }
    }

    return NULL;
}

const perf_method_t *perf_method_find(const char *name)
{
    return method_find(name, strlen(name));
}

int perf_test_find(const char *name, const perf_method_t **method_p,
                   perf_kind_t *kind_p)
{
    const char *suffix;
    unsigned kind;

    *kind_p   = PERF_KIND_LAT;
    *method_p = perf_method_find(name);
    if (*method_p != NULL) {
        return 1;
    }

    suffix = strrchr(name, '_');
    if (suffix == NULL) {
        return 0;
    }

    for (kind = 0; kind < PERF_KIND_LAST; ++kind) {
        if (!strcmp(suffix + 1, perf_kind_names[kind])) {
            *kind_p   = kind;
            *method_p = method_find(name, suffix - name);
            return *method_p != NULL;
        }
    }

    return 0;
}

/* One test, whose name is not terminated. @return Its kind. */
static perf_kind_t check_test(const perf_opts_t *opts, const char *name,
                              size_t length, size_t *min_size_p)
{
    char buffer[64]             = "";
    const perf_method_t *method = NULL;
    perf_kind_t kind            = PERF_KIND_LAT;

    if (length < sizeof(buffer)) {
        memcpy(buffer, name, length);
    }
    if ((length >= sizeof(buffer)) || !perf_test_find(buffer, &method, &kind)) {
        perf_wrong_option("there is no test '%.*s': -h lists the tests",
                          (int)length, name);
    }
    if ((method->flags & PERF_METHOD_ONE_EP) && (opts->num_eps > 1)) {
        perf_wrong_option("%s polls for its last operation: -e has to be 1",
                          method->name);
    }

    if (method->min_size > *min_size_p) {
        *min_size_p = method->min_size;
    }
    return kind;
}

/* @return The kind of all tests, and the size that they need at least */
static perf_kind_t check_tests(const perf_opts_t *opts, size_t *min_size_p)
{
    const char *name = opts->tests;
    unsigned count   = 0;
    perf_kind_t kind, first = PERF_KIND_LAT;
    size_t length;

    if (!opts->compare) {
        if (strchr(name, ',') != NULL) {
            perf_wrong_option(
                    "-t takes one test, not '%s': several are for --compare",
                    name);
        }
        return check_test(opts, name, strlen(name), min_size_p);
    }

    for (;;) {
        length = strcspn(name, ",");
        kind   = check_test(opts, name, length, min_size_p);
        first  = (count == 0) ? kind : first;
        if (kind != first) {
            perf_wrong_option(
                    "--compare takes tests of one kind, but '%.*s' is _%s "
                    "and the first one is _%s",
                    (int)length, name, perf_kind_names[kind],
                    perf_kind_names[first]);
        }

        ++count;
        if (name[length] == '\0') {
            break;
        }
        name += length + 1;
    }

    if ((count < 2) || (count > PERF_MAX_TESTS)) {
        perf_wrong_option("--compare takes from 2 to %d tests, not %u",
                          PERF_MAX_TESTS, count);
    }
    return first;
}


/*
 * The command line
 */

static const char *parse_tl(const char *text)
{
    static const char chars[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    size_t length             = strspn(text, chars);

    if ((length == 0) || (text[length] != '\0') || (length >= PERF_MAX_TL)) {
        perf_wrong_option(
                "-x takes the name of a transport of UCX like rc_verbs, "
                "not '%s'",
                text);
    }

    return text;
}

static perf_layout_t parse_layout(const char *text)
{
    unsigned layout;

    for (layout = PERF_LAYOUT_SHORT; layout < PERF_LAYOUT_LAST; ++layout) {
        if (!strcmp(text, layout_names[layout])) {
            return layout;
        }
    }

    perf_wrong_option("-D takes short, bcopy or zcopy, not '%s'", text);
}

/* The only option of two words: getopt knows about the first one */
static void parse_output(int argc, char **argv, perf_opts_t *opts)
{
    if (!strcmp(optarg, "csv")) {
        opts->format = PERF_FORMAT_CSV;
    } else if (!strcmp(optarg, "json")) {
        opts->format = PERF_FORMAT_JSON;
    } else {
        perf_wrong_option("-o takes csv or json, and then a file, not '%s'",
                          optarg);
    }

    if ((optind >= argc) || (argv[optind][0] == '\0') ||
        ((argv[optind][0] == '-') && (argv[optind][1] != '\0'))) {
        perf_wrong_option("-o %s takes a file, too: -o %s FILE, or - for stdout",
                          optarg, optarg);
    }
    opts->file = argv[optind++];
}

static void print_help(void)
{
    const perf_method_t **method;

    fputs(usage, stdout);
    for (method = perf_methods; *method != NULL; ++method) {
        printf("  %-20s %s\n", (*method)->name, (*method)->desc);
    }
    fputs(notes, stdout);
    exit(0);
}

static void set_defaults(perf_opts_t *opts)
{
    memset(opts, 0, sizeof(*opts));
    opts->port        = 13347;
    opts->tests       = "ucp_put_imm_lat";
    opts->stock_tl    = "rc_verbs";
    opts->size_factor = 2;
    opts->warmup      = UINT64_MAX;
    opts->window      = 64;
    opts->num_eps     = 1;
    opts->timeout     = 60;
}

/* Options that say how much */
static void parse_amount(int option, perf_opts_t *opts)
{
    switch (option) {
    case 'n':
        opts->iters = perf_parse_number(optarg, 1, MAX_ITERS,
                                        option_name(option));
        break;
    case 'w':
        opts->warmup = perf_parse_number(optarg, 0, MAX_ITERS,
                                         option_name(option));
        break;
    case 's':
        perf_parse_sizes(optarg, opts);
        break;
    case 'W':
        opts->window = perf_parse_number(optarg, 1, MAX_WINDOW,
                                         option_name(option));
        break;
    case 'r':
        opts->rounds = perf_parse_number(optarg, 1, MAX_ROUNDS,
                                         option_name(option));
        break;
    case 'e':
        opts->num_eps = perf_parse_number(optarg, 1, PERF_MAX_EPS,
                                          option_name(option));
        break;
    case 'p':
        opts->port = perf_parse_number(optarg, 1, 65535, option_name(option));
        break;
    case 'T':
        opts->timeout = perf_parse_seconds(optarg);
        break;
    default:
        break;
    }
}

static void parse_option(int option, int argc, char **argv, parse_t *parse)
{
    perf_opts_t *opts = parse->opts;

    switch (option) {
    case 'l':
    case OPT_FORK:
        break; /* It was given, that is all */
    case OPT_COMPARE:
        opts->compare = 1;
        opts->tests   = optarg;
        break;
    case 't':
        opts->tests = optarg;
        break;
    case 'd':
        parse->device = optarg;
        break;
    case 'x':
        opts->stock_tl = parse_tl(optarg);
        break;
    case OPT_SAME_TLS:
        opts->stock_tl = "wimm";
        break;
    case 'D':
        opts->layout = parse_layout(optarg);
        break;
    case 'c':
        perf_parse_cpus(optarg, opts);
        break;
    case 'N':
        opts->no_counts = 1;
        break;
    case 'o':
        parse_output(argc, argv, opts);
        break;
    case 'q':
        opts->quiet = 1;
        break;
    case 'h':
        print_help();
        break;
    case 'V':
        printf(PERF_PROGRAM " %s\n", PACKAGE_VERSION);
        exit(0);
    default:
        parse_amount(option, opts);
    }
}

/* What getopt has refused */
static void refuse_option(int option, char **argv)
{
    if (option == ':') {
        perf_wrong_option("%s takes a value: -h shows which one",
                          option_name(optopt));
    }
    if (optopt >= OPT_FORK) {
        perf_wrong_option("%s takes no value: -h shows the options",
                          option_name(optopt));
    }
    if ((optopt == 0) || !strncmp(argv[optind - 1], "--", 2)) {
        perf_wrong_option("%s is no option, or not enough of one: -h shows the "
                          "options",
                          argv[optind - 1]);
    }
    perf_wrong_option("-%c is no option: -h shows the options", optopt);
}

static void parse_options(int argc, char **argv, parse_t *parse)
{
    int option;

    opterr = 0;
    while ((option = getopt_long(argc, argv,
                                 ":lt:d:x:n:w:s:W:r:e:D:p:c:T:No:qhV",
                                 long_options, NULL)) != -1) {
        if ((option == ':') || (option == '?')) {
            refuse_option(option, argv);
        }

        parse->given[option] = 1;
        if ((parse->client_option == 0) &&
            ((option > UCHAR_MAX) || !strchr(SERVER_OPTIONS, option))) {
            parse->client_option = option;
        }
        parse_option(option, argc, argv, parse);
    }

    if (optind < argc) {
        parse->opts->host = argv[optind++];
    }
    if (optind < argc) {
        perf_wrong_option(
                "there can be one HOST only, not '%s' and '%s': -h shows "
                "the options",
                parse->opts->host, argv[optind]);
    }
}

static void refuse_both(const parse_t *parse, int option, int other)
{
    if (parse->given[option] && parse->given[other]) {
        /* In two calls, as there is one buffer */
        fprintf(stderr, PERF_PROGRAM ": %s and ", option_name(option));
        fprintf(stderr, "%s exclude each other: give one of them\n",
                option_name(other));
        exit(2);
    }
}

static void choose_mode(parse_t *parse)
{
    perf_opts_t *opts = parse->opts;
    int is_local      = parse->given['l'] || parse->given[OPT_FORK];

    refuse_both(parse, 'l', OPT_FORK);
    refuse_both(parse, 't', OPT_COMPARE);
    refuse_both(parse, 'x', OPT_SAME_TLS);

    if ((opts->host != NULL) && is_local) {
        perf_wrong_option("%s has both sides here, and takes no HOST '%s': "
                          "leave one of them out",
                          option_name(parse->given['l'] ? 'l' : OPT_FORK),
                          opts->host);
    }
    if ((opts->host != NULL) && (*opts->host == '\0')) {
        perf_wrong_option(
                "HOST is empty: give the name or address of the server");
    }

    if (parse->given['l']) {
        opts->mode = PERF_MODE_LOCAL;
    } else if (parse->given[OPT_FORK]) {
        opts->mode = PERF_MODE_FORK;
    } else if (opts->host != NULL) {
        opts->mode = PERF_MODE_CLIENT;
    } else {
        opts->mode = PERF_MODE_SERVER;
    }

    if ((opts->mode == PERF_MODE_SERVER) && (parse->client_option != 0)) {
        perf_wrong_option(
                "%s is the client's: give it there, or give HOST, -l or "
                "--fork here",
                option_name(parse->client_option));
    }
}

/* What depends on more than one option */
static void check_all(parse_t *parse)
{
    perf_opts_t *opts = parse->opts;
    size_t min_size   = 0;
    perf_kind_t kind  = check_tests(opts, &min_size);

    if (!parse->given['s']) {
        opts->size     = (kind == PERF_KIND_BW) ? 64 * 1024 : 8;
        opts->max_size = opts->size;
    }
    if (opts->size < min_size) {
        perf_wrong_option(
                "%s takes sizes from %zu, not %zu: give another one with "
                "-s",
                opts->tests, min_size, opts->size);
    }

    if ((opts->iters != 0) && (opts->iters < opts->rounds)) {
        perf_wrong_option("there are fewer operations (-n %llu) than rounds (-r "
                          "%u): give more of them",
                          (unsigned long long)opts->iters, opts->rounds);
    }
}

void perf_opts_parse(int argc, char **argv, perf_opts_t *opts)
{
    parse_t parse = { .opts = opts };

    set_defaults(opts);
    parse_options(argc, argv, &parse);
    choose_mode(&parse);
    check_all(&parse);

    /* Last, as this is about the machine */
    perf_parse_device(parse.device, opts->device);
}


/*
 * What follows from options
 */

uint64_t perf_opts_iters(const perf_opts_t *opts, size_t size)
{
    if (opts->iters != 0) {
        return opts->iters;
    }

    return (size <= 1024) ? 10000 : (size <= 64 * 1024) ? 1000 : 100;
}

uint64_t perf_opts_warmup(const perf_opts_t *opts, size_t size)
{
    uint64_t warmup = perf_opts_iters(opts, size) / 10;

    if (opts->warmup != UINT64_MAX) {
        return opts->warmup;
    }

    /* Each endpoint once; there is one at least */
    return (warmup > opts->num_eps) ? warmup : opts->num_eps;
}

int perf_opts_next_size(const perf_opts_t *opts, size_t *size)
{
    size_t next = (*size * opts->size_factor) + opts->size_step;

    if (next == 0) {
        next = 1;
    }
    if (next > opts->max_size) {
        return 0;
    }

    *size = next;
    return 1;
}
