/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "ucp_test.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>


/* Memory that the CPU cannot read. UCX 1.13 takes the file for the driver of a GPU, and
 * registers memory of the type ROCM with the device; ours is that of the host, without
 * access. */
class test_ucp_device_mem : public ucp_test {
  protected:
    void SetUp() override
    {
        ucp_test::SetUp();
        if (getenv("WIMM_VM") == nullptr) {
            GTEST_SKIP() << "makes a device file: only in the VM";
        }

        int fd = open(path, O_CREAT | O_WRONLY, 0600);
        ASSERT_GE(fd, 0);
        ::close(fd);
        create_pair();
        m_src.reset(new ucp_buffer(sender(), size, UCS_MEMORY_TYPE_ROCM));
        m_dst.reset(new ucp_buffer(receiver(), size));
        m_rkey = m_dst->unpack(sender().ep()).release();
    }

    void TearDown() override
    {
        if (m_rkey != nullptr) {
            ucp_rkey_destroy(m_rkey);
        }
        m_src.reset();
        m_dst.reset();
        ucp_test::TearDown();
        unlink(path);
    }

    ucp_request_param_t param() const
    {
        ucp_request_param_t p = {};

        p.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
        p.memh         = m_src->memh();
        p.memory_type  = UCS_MEMORY_TYPE_ROCM;
        return p;
    }

    static constexpr const char *path = "/dev/kfd";
    static const size_t size          = 1 << 20;

    std::unique_ptr<ucp_buffer> m_src, m_dst;
    ucp_rkey_h m_rkey = nullptr;
};

constexpr const char *test_ucp_device_mem::path;
const size_t test_ucp_device_mem::size;


TEST_F(test_ucp_device_mem, is_never_touched_by_the_cpu)
{
    ucp_request_param_t p = param();
    uint32_t imm          = 0;

    m_src->fill(9, 0, size);
    ASSERT_EQ(0, mprotect(m_src->ptr(), size, PROT_NONE));

    /* The first ones wait for the connection */
    for (size_t length = 8; length <= size; length *= 2) {
        m_dst->clear();
        ASSERT_OK(wait(ucp_wimm_put_nbx(sender().wimm(), sender().ep(),
                                        m_src->ptr(), length, m_dst->addr(),
                                        m_rkey, imm, &p)));
        ASSERT_TRUE(wait_arrivals(receiver(), imm + 1));
        EXPECT_EQ(length, receiver().arrivals[imm].length);
        EXPECT_EQ(length, m_dst->check(9, 0, length));
        ++imm;
    }
    ASSERT_EQ(0, mprotect(m_src->ptr(), size, PROT_READ | PROT_WRITE));
}

TEST_F(test_ucp_device_mem, type_of_the_handle_has_to_be_the_parameters)
{
    ucp_request_param_t p = param();

    p.memory_type = UCS_MEMORY_TYPE_HOST;
    expect_error("is for rocm memory, but the put is of host memory");
    ucs_status_ptr_t ptr = ucp_wimm_put_nbx(sender().wimm(), sender().ep(),
                                            m_src->ptr(), 8, m_dst->addr(),
                                            m_rkey, 1, &p);
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, UCS_PTR_STATUS(ptr));
}
