# A recipe for a feed of OpenWrt, from the small static programs of scripts/dist --mini (scripts/manifests has filled in version and
# sums): as Makefile in a folder net/fulmar-mini of the feed.
include $(TOPDIR)/rules.mk

PKG_NAME:=fulmar-mini
PKG_VERSION:=@VERSION@
PKG_RELEASE:=1
PKG_LICENSE:=MIT OR Apache-2.0
PKG_SOURCE_URL:=@RELEASES@

ifeq ($(ARCH),x86_64)
  FULMAR_TARGET:=x86_64-unknown-linux-musl
  PKG_HASH:=@SHA256:mini-x86_64-unknown-linux-musl@
endif
ifeq ($(ARCH),aarch64)
  FULMAR_TARGET:=aarch64-unknown-linux-musl
  PKG_HASH:=@SHA256:mini-aarch64-unknown-linux-musl@
endif
PKG_SOURCE:=fulmar-mini-$(PKG_VERSION)-$(FULMAR_TARGET).tar.gz
PKG_BUILD_DIR:=$(BUILD_DIR)/fulmar-mini-$(PKG_VERSION)-$(FULMAR_TARGET)

include $(INCLUDE_DIR)/package.mk

define Package/fulmar-mini
  SECTION:=net
  CATEGORY:=Network
  TITLE:=@SUMMARY@
  URL:=@URL@
  DEPENDS:=@(x86_64||aarch64)
endef

define Package/fulmar-mini/conffiles
/etc/fulmar/
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
