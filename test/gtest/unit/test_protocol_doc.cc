/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "tl_test.h"

extern "C" {
#include <ucp/wimm/ucp_wimm_emul.h>
#include <uct/ib/wimm/wimm_fc.h>
}

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>


static const char *const protocol_md = "docs/protocol.md";


/* The figures in the documents are those of the code */
class test_protocol_doc : public tl_test {
  protected:
    typedef std::vector<std::string> row;

    /* What the program does with receive queues, without a device */
    class fake_iface {
      public:
        fake_iface(const uct_wimm_iface_config_t &config, unsigned length)
            : m_iface(), m_cq()
        {
            const uct_rc_iface_common_config_t &rc = config.super.super.super;
            uct_rc_iface_t *rc_iface               = &m_iface.super.super;

            m_cq.cqe                          = length;
            rc_iface->super.cq[UCT_IB_DIR_RX] = &m_cq;
            rc_iface->rx.srq.quota            = length;
            rc_iface->config.fc_enabled       = rc.fc.enable;
            rc_iface->config.fc_wnd_size      = rc.fc.wnd_size;
            m_iface.config.rx_max_batch       = rc.super.rx.max_batch;
            ucs_list_head_init(&rc_iface->ep_list);
            uct_wimm_fc_init(&m_iface);
            m_iface.fc.srq_warned = 1; /* It would say on which device */
        }

        unsigned min_length(unsigned num_eps) const
        {
            return uct_wimm_fc_min_srq_len(&m_iface, num_eps);
        }

        /* With so many endpoints */
        int share(unsigned num_eps)
        {
            create_eps(num_eps);
            return m_iface.fc.target;
        }

        int pool(unsigned num_eps)
        {
            create_eps(num_eps);
            return m_iface.fc.pool;
        }

      private:
        void create_eps(unsigned num_eps)
        {
            for (unsigned i = 0; i < num_eps; ++i) {
                uct_wimm_ep_t ep = {};

                uct_wimm_fc_ep_init(&m_iface, &ep);
            }
        }

        uct_wimm_iface_t m_iface;
        struct ibv_cq m_cq;
    };

    void SetUp() override
    {
        tl_test::SetUp();
        ASSERT_OK(uct_wimm_tl_register(&m_abi));
        ASSERT_OK(ucs_config_parser_fill_opts(&m_config,
                                              uct_wimm_tl.config.table,
                                              UCS_DEFAULT_ENV_PREFIX,
                                              uct_wimm_tl.config.prefix, 0));
    }

    void TearDown() override
    {
        ucs_config_parser_release_opts(&m_config, uct_wimm_tl.config.table);
        tl_test::TearDown();
    }

    /* The table whose first row begins so, with that row */
    static std::vector<row> table(const std::string &first,
                                  const std::string &doc = protocol_md)
    {
        std::ifstream file(WIMM_TOP_SRCDIR "/" + doc);
        std::vector<row> result;
        std::string line, cell;

        EXPECT_TRUE(file.is_open());
        while (std::getline(file, line) &&
               (line.compare(0, first.size(), first) != 0)) {
        }
        for (; file && (line.compare(0, 1, "|") == 0);
             std::getline(file, line)) {
            if (line.compare(0, 2, "|-") == 0) {
                continue;
            }

            std::istringstream cells(line.substr(1));
            result.emplace_back();
            while (std::getline(cells, cell, '|')) {
                result.back().push_back(cell.substr(1, cell.size() - 2));
            }
        }
        EXPECT_GT(result.size(), 1u) << "no table \"" << first << "\"";
        return result;
    }

    static bool has_text(const std::string &text)
    {
        std::ifstream file(std::string(WIMM_TOP_SRCDIR "/") + protocol_md);
        std::ostringstream all;

        all << file.rdbuf();
        return all.str().find(text) != std::string::npos;
    }

    /* What is between ` and ` */
    static row quoted(const std::string &text)
    {
        std::istringstream parts(text);
        std::string part;
        row result;

        for (unsigned i = 0; std::getline(parts, part, '`'); ++i) {
            if (i % 2) {
                result.push_back(part);
            }
        }
        return result;
    }

    /* The first number in a text */
    static unsigned number(const std::string &text)
    {
        const size_t pos = text.find_first_of("0123456789");

        EXPECT_NE(std::string::npos, pos) << text;
        return (pos == std::string::npos) ? 0 : atoi(text.c_str() + pos);
    }

    /* The line of a key, as it is printed with what is set in the environment */
    static std::string print(const std::string &key)
    {
        uct_wimm_iface_config_t config = {};
        char *text                     = NULL;
        size_t size                    = 0;
        FILE *stream                   = open_memstream(&text, &size);
        std::string line, result;

        EXPECT_OK(ucs_config_parser_fill_opts(&config, uct_wimm_tl.config.table,
                                              UCS_DEFAULT_ENV_PREFIX,
                                              uct_wimm_tl.config.prefix, 0));
        ucs_config_parser_print_opts(stream, "", &config,
                                     uct_wimm_tl.config.table,
                                     uct_wimm_tl.config.prefix,
                                     UCS_DEFAULT_ENV_PREFIX,
                                     UCS_CONFIG_PRINT_CONFIG);
        ucs_config_parser_release_opts(&config, uct_wimm_tl.config.table);
        fclose(stream);

        std::istringstream lines(text);
        while (std::getline(lines, line)) {
            if (line.compare(0, key.size() + 1, key + "=") == 0) {
                result = line;
            }
        }
        free(text);
        return result;
    }

    uct_wimm_iface_config_t m_config = {};
};


TEST_F(test_protocol_doc, receive_queues)
{
    const std::vector<row> rows = table("| endpoints |");
    unsigned num_short          = 0;
    unsigned last_min           = 0;

    for (size_t i = 1; i < rows.size(); ++i) {
        ASSERT_EQ(rows[0].size(), rows[i].size());
        const unsigned num_eps = number(rows[i][0]);
        const unsigned min     = number(rows[i][1]);

        EXPECT_EQ(fake_iface(m_config, min).min_length(num_eps), min)
                << num_eps << " endpoints";

        /* What each endpoint has for itself just fits in */
        EXPECT_GE(fake_iface(m_config, min).pool(num_eps), 0);
        EXPECT_LT(fake_iface(m_config, min - 1).pool(num_eps), 0);
        EXPECT_GT(min, last_min);
        last_min = min;

        for (size_t column = 2; column < rows[i].size(); ++column) {
            const unsigned length = number(rows[0][column]);
            fake_iface iface(m_config, length);

            if (rows[i][column] == "too short") {
                EXPECT_GT(iface.min_length(num_eps), length);
                ++num_short;
                continue;
            }

            EXPECT_LE(iface.min_length(num_eps), length);
            EXPECT_EQ(iface.share(num_eps),
                      static_cast<int>(number(rows[i][column])))
                    << num_eps << " endpoints, " << length << " receives";
        }
    }
    EXPECT_GT(num_short, 0u);
}

TEST_F(test_protocol_doc, defaults_of_keys)
{
    for (const char *doc : { protocol_md, "README.md" }) {
        const std::vector<row> rows = table("| key |", doc);

        for (size_t i = 1; i < rows.size(); ++i) {
            ASSERT_EQ(rows[0].size(), rows[i].size());
            const auto keys     = quoted(rows[i][0]);
            const auto defaults = quoted(rows[i][1]);

            ASSERT_FALSE(keys.empty());
            ASSERT_EQ(keys.size(), defaults.size()) << keys[0];
            for (size_t k = 0; k < keys.size(); ++k) {
                /* `UCX_WIMM_A_COUNT`, `_PERIOD` */
                const std::string key =
                        (keys[k][0] != '_') ?
                                keys[k] :
                                keys[0].substr(0, keys[0].rfind('_')) + keys[k];
                const std::string before = print(key);

                /* Set, it is the same, however it is written */
                scoped_env env(key, defaults[k]);
                EXPECT_NE("", before) << "no key " << key;
                EXPECT_EQ(before, print(key));
            }
        }
    }
}

TEST_F(test_protocol_doc, version_and_limits)
{
    EXPECT_TRUE(has_text("\nVersion " + std::to_string(UCT_WIMM_PROTO_VERSION) +
                         " of the wire protocol."));
    EXPECT_TRUE(has_text("the peer never has more than " +
                         std::to_string(UCT_WIMM_MAX_CREDITS) + " |"));
    EXPECT_TRUE(
            has_text(", 1 to " + std::to_string(UCT_WIMM_MAX_SLOTS) + " |"));
}

TEST_F(test_protocol_doc, messages_of_the_emulation)
{
    const std::vector<row> rows = table("| code | message |");
    const std::vector<std::pair<unsigned, std::string>> ops = {
        { UCP_WIMM_EMUL_PROBE, "PROBE" },     { UCP_WIMM_EMUL_HELLO, "HELLO" },
        { UCP_WIMM_EMUL_NOTIFY, "NOTIFY" },   { UCP_WIMM_EMUL_SLOTS, "SLOTS" },
        { UCP_WIMM_EMUL_DATA, "DATA" },       { UCP_WIMM_EMUL_FLUSH, "FLUSH" },
        { UCP_WIMM_EMUL_FLUSHED, "FLUSHED" }, { UCP_WIMM_EMUL_BYE, "BYE" }
    };

    ASSERT_EQ(ops.size() + 1, rows.size());
    EXPECT_EQ(ops.size(), UCP_WIMM_EMUL_LAST);
    for (size_t i = 0; i < ops.size(); ++i) {
        EXPECT_EQ(std::to_string(ops[i].first), rows[i + 1][0]);
        EXPECT_EQ(ops[i].second, rows[i + 1][1]);
    }
    EXPECT_EQ(24u, sizeof(ucp_wimm_emul_hdr_t));
    EXPECT_EQ(7168, UCP_WIMM_EMUL_MAX_DATA);
}

TEST_F(test_protocol_doc, operations)
{
    const std::vector<row> rows = table("| operation |");
    const std::vector<std::pair<unsigned, std::string>> ops = {
        { UCT_WIMM_CTRL_GRANT, "grant" },
        { UCT_WIMM_CTRL_RECLAIM, "reclaim" },
        { UCT_WIMM_CTRL_RETURN, "return" },
        { UCT_WIMM_CTRL_SLOTS, "slots" },
        { UCT_WIMM_CTRL_LENGTH, "length" }
    };

    ASSERT_EQ(ops.size() + 1, rows.size());
    for (size_t i = 0; i < ops.size(); ++i) {
        EXPECT_EQ(std::to_string(ops[i].first) + " " + ops[i].second,
                  rows[i + 1][0]);
    }
}
