// Both C++ headers in one program, in several of its files, beside a libsab that is linked
// statically and has names of its own inside.
#include <gtest/gtest.h>
#include <sab/torch.hpp>
#include <sab/torch_optimizer.hpp>

namespace {

TEST(Headers, ErrorsAreThoseOfTheHeader_NotTheLibrarysOwn) {
    try {
        sab::Grouping::predefined({5}, 2);
        FAIL() << "not refused";
    } catch (const std::runtime_error& error) {
        EXPECT_NE(std::string(error.what()).find("group_of[0] = 5"), std::string::npos)
            << error.what();
        const auto* const own = dynamic_cast<const sab::Error*>(&error);
        ASSERT_NE(own, nullptr);
        EXPECT_EQ(own->status(), SAB_E_ARGUMENT);
    }
    EXPECT_EQ(sab::Grouping::uni(3).groups().samples, 3U);
}

}  // namespace
