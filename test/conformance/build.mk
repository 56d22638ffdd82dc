#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# UCX's UCT tests for one transport, built in the current folder. build.sh calls
# this with: CXX, TRANSPORT, HERE (this folder), UCX_SRC, UCX_LDFLAGS, UCX_LIBS,
# UCX_RPATH, and MODULE (none for UCX's own transports).
#

program := gtest_$(TRANSPORT)
tests   := $(UCX_SRC)/test/gtest

vpath %.cc $(tests)

# What does not depend on the transport
common := \
	common/main.cc \
	common/mem_buffer.cc \
	common/test.cc \
	common/test_helpers.cc \
	common/test_watchdog.cc \
	$(addprefix common/googletest/, \
	    gtest.cc gtest-death-test.cc gtest-filepath.cc gtest-matchers.cc \
	    gtest-port.cc gtest-printers.cc gtest-test-part.cc gtest-typed-test.cc)

# Not for a transport of the kind of rc_verbs: other kinds (ud, dc, mm, devx and
# the tag matching of mlx5), memory domains, connection managers, and measuring
others := \
	uct/test_md.cc uct/test_mem.cc uct/test_mm.cc uct/test_tag.cc \
	uct/test_uct_perf.cc uct/ib/test_dc.cc uct/ib/test_devx.cc \
	uct/ib/test_ib_md.cc uct/ib/test_sockaddr.cc uct/ib/test_ud%.cc \
	uct/ib/ud_base.cc
uct := $(filter-out $(others), $(sort $(patsubst $(tests)/%, %, \
	   $(wildcard $(addprefix $(tests)/uct/, *.cc ib/*.cc v2/*.cc)))))
ifeq ($(uct),)
$(error there are no UCT tests in $(tests))
endif

objects := $(common:%.cc=common-objects/%.o) $(uct:%.cc=$(TRANSPORT)-objects/%.o)

# As UCX itself builds them, but not optimized: the time goes into the device and
# its emulation, not into the tests
flags := -std=c++11 -O0 -w -MD -MP -DHAVE_CONFIG_H -DTOP_SRCDIR='"$(UCX_SRC)"' \
	-I. -I$(UCX_SRC)/src -I$(UCX_SRC)/test -I$(tests) \
	-I$(tests)/common/googletest

# The module is found where it is built when the tests start: it may change
ifneq ($(MODULE),)
module := -Wl,--no-as-needed $(MODULE) -Wl,--as-needed \
	-Wl,-rpath,$(dir $(MODULE))
endif

$(program): $(objects) flags-$(TRANSPORT) | $(MODULE)
	$(CXX) -o $@ $(objects) $(module) $(UCX_LDFLAGS) \
	    $(UCX_RPATH:%=-Wl,-rpath,%) $(UCX_LIBS) -libverbs -lpthread -ldl

common-objects/%.o: %.cc flags-common
	@mkdir -p $(@D)
	$(CXX) $(flags) -c $< -o $@

$(TRANSPORT)-objects/%.o: %.cc flags-$(TRANSPORT)
	@mkdir -p $(@D)
	$(CXX) $(flags) -DWIMM_TEST_TL=$(TRANSPORT) \
	    -include $(HERE)/one_transport.h -c $< -o $@

# Everything is built anew with other flags
flags-%: always
	@echo '$(CXX) $(flags) $(UCX_LDFLAGS) $(UCX_RPATH) $(UCX_LIBS)' >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

.PHONY: always
.SECONDARY:
.DELETE_ON_ERROR:

-include $(objects:.o=.d)
