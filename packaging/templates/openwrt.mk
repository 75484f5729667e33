# A recipe for a feed of OpenWrt, from the small static programs of scripts/dist --mini (scripts/manifests has filled in version and
# sums): as Makefile in a folder net/fulmar-mini of the feed.
include $(TOPDIR)/rules.mk

PKG_NAME:=fulmar-mini
PKG_VERSION:=@VERSION@
PKG_RELEASE:=1
PKG_LICENSE:=MIT OR Apache-2.0
PKG_LICENSE_FILES:=LICENSE-MIT LICENSE-APACHE

# OpenWrt's names of processors, and the programs' names of them. What is for ARMv7 wants a unit for floating point, no NEON.
FULMAR_TARGET:=$(subst riscv64,riscv64gc,$(subst i386,i686,$(subst arm,armv7,$(ARCH))))
FULMAR_TARGET:=$(FULMAR_TARGET)-unknown-linux-musl$(if $(filter arm,$(ARCH)),eabihf)
?mini-x86_64-unknown-linux-musl FULMAR_ON:=x86_64
?mini-x86_64-unknown-linux-musl FULMAR_SUM_x86_64:=@SHA256:mini-x86_64-unknown-linux-musl@
?mini-aarch64-unknown-linux-musl FULMAR_ON:=$(FULMAR_ON)||aarch64
?mini-aarch64-unknown-linux-musl FULMAR_SUM_aarch64:=@SHA256:mini-aarch64-unknown-linux-musl@
?mini-armv7-unknown-linux-musleabihf FULMAR_ON:=$(FULMAR_ON)||(arm_v7&&HAS_FPU)
?mini-armv7-unknown-linux-musleabihf FULMAR_SUM_arm:=@SHA256:mini-armv7-unknown-linux-musleabihf@
?mini-i686-unknown-linux-musl FULMAR_ON:=$(FULMAR_ON)||i386
?mini-i686-unknown-linux-musl FULMAR_SUM_i386:=@SHA256:mini-i686-unknown-linux-musl@
?mini-riscv64gc-unknown-linux-musl FULMAR_ON:=$(FULMAR_ON)||riscv64
?mini-riscv64gc-unknown-linux-musl FULMAR_SUM_riscv64:=@SHA256:mini-riscv64gc-unknown-linux-musl@

PKG_SOURCE:=fulmar-mini-$(PKG_VERSION)-$(FULMAR_TARGET).tar.gz
PKG_SOURCE_URL:=@RELEASES@
PKG_HASH:=$(FULMAR_SUM_$(ARCH))
PKG_BUILD_DIR:=$(BUILD_DIR)/fulmar-mini-$(PKG_VERSION)-$(FULMAR_TARGET)

include $(INCLUDE_DIR)/package.mk

define Package/fulmar-mini
  SECTION:=net
  CATEGORY:=Network
  TITLE:=@SUMMARY@
  URL:=@URL@
  DEPENDS:=@($(FULMAR_ON))
endef

define Package/fulmar-mini/conffiles
/etc/fulmar/
endef

define Build/Configure
endef

define Build/Compile
endef

define Package/fulmar-mini/install
	$(INSTALL_DIR) $(1)/usr/bin $(1)/etc/init.d
	$(INSTALL_BIN) $(PKG_BUILD_DIR)/fulmar $(1)/usr/bin/
	$(INSTALL_BIN) $(PKG_BUILD_DIR)/fulmar.init $(1)/etc/init.d/fulmar
	$(INSTALL_DIR) -m 0700 $(1)/etc/fulmar
endef

$(eval $(call BuildPackage,fulmar-mini))
