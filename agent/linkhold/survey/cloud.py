"""Whether a NIC belongs to a cloud's network, which ties addresses to the NIC and not to a wire.

There MAC and IP address belong to one virtual NIC: frames with another NIC's address are dropped,
so a bond of two fails at its first failover. Told by the machine's DMI table
(/sys/class/dmi/id, readable to all), by what cloud-init found (/run/cloud-init/cloud-id) and by
the driver. The words are those of cloud-init's ds-identify and of systemd's virt.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.model.survey import Cloud

if TYPE_CHECKING:
    from linkhold.model.survey import Nic
    from linkhold.survey.files import Reader

DMI = "/sys/class/dmi/id"
FIELDS = ("sys_vendor", "product_name", "board_vendor", "chassis_asset_tag", "bios_vendor",
          "product_version", "chassis_vendor")  # fmt: skip
# The tag tells Azure from a Hyper-V of one's own (Azure documentation; ds-identify).
AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"

# vendor, field, text that the field begins with (compared without case).
BY_DMI = (
    ("Amazon EC2", "sys_vendor", "amazon ec2"),
    ("Amazon EC2", "bios_vendor", "amazon ec2"),
    ("Amazon EC2", "product_version", "4.2.amazon"),  # Xen instances
    ("Google Cloud", "sys_vendor", "google"),
    ("Google Cloud", "product_name", "google compute engine"),
    ("Microsoft Azure", "chassis_asset_tag", AZURE_TAG),
    ("Oracle Cloud", "chassis_asset_tag", "oraclecloud.com"),
    ("Alibaba Cloud", "sys_vendor", "alibaba cloud"),
    ("Tencent Cloud", "sys_vendor", "tencent cloud"),
    ("Huawei Cloud", "sys_vendor", "huawei cloud"),
    ("DigitalOcean", "sys_vendor", "digitalocean"),
    ("Hetzner Cloud", "sys_vendor", "hetzner"),
    ("Vultr", "sys_vendor", "vultr"),
    ("Akamai", "sys_vendor", "akamai"),
    ("Akamai", "sys_vendor", "linode"),
    ("Scaleway", "sys_vendor", "scaleway"),
    ("UpCloud", "sys_vendor", "upcloud"),
    ("Exoscale", "product_name", "exoscale"),
    ("IBM Cloud", "chassis_vendor", "ibm:cloud compute server"),
    ("Nebius", "sys_vendor", "nebius"),
)
# Neutron drops foreign addresses while port security is on, its default; an owner may turn it off.
OPENSTACK = (
    ("product_name", "openstack "),
    ("sys_vendor", "openstack"),
    ("chassis_asset_tag", "openstack "),
    ("chassis_asset_tag", "opentelekomcloud"),
    ("chassis_asset_tag", "sap ccloud vm"),
)
# Names in /run/cloud-init/cloud-id that are a public cloud (cloud-init, query cloud_name).
BY_CLOUD_ID = {
    "aws": "Amazon EC2", "gce": "Google Cloud", "azure": "Microsoft Azure",
    "oracle": "Oracle Cloud", "aliyun": "Alibaba Cloud", "digitalocean": "DigitalOcean",
    "hetzner": "Hetzner Cloud", "vultr": "Vultr", "akamai": "Akamai", "scaleway": "Scaleway",
    "upcloud": "UpCloud", "exoscale": "Exoscale", "openstack": "OpenStack",
}  # fmt: skip
# Drivers of hardware that exists in one cloud only.
BY_DRIVER = {
    "ena": "Amazon EC2", "efa": "Amazon EC2", "gve": "Google Cloud", "mana": "Microsoft Azure",
}  # fmt: skip
BOUND = "its network ties each MAC and IP address to one virtual NIC, a bond cannot move them"


def look(reader: Reader, nic: Nic) -> Cloud | None:
    """Return the cloud that ``nic`` belongs to; None when it is known to belong to none.

    An interface without a device (veth, dummy) is no NIC of a cloud. On IPoIB the fabric is not
    the cloud's Ethernet, so the verdict there is not certain.
    """
    if nic.virtual:
        return None
    if nic.driver in BY_DRIVER:
        vendor = BY_DRIVER[nic.driver]
        return Cloud(vendor, f"driver {nic.driver} ({vendor}): {BOUND}")
    fields = {name: reader.line(f"{DMI}/{name}") for name in FIELDS}
    found = _by_dmi(fields) or _by_cloud_id(reader)
    if found is None:
        return _hyper_v(nic) or _without_dmi(fields)
    vendor, seen = found
    certain = vendor != "OpenStack" and not nic.ipoib
    return Cloud(vendor, f"{seen}: {BOUND}", certain)


def machine(reader: Reader) -> tuple[str, str]:
    """Return the cloud that this machine is of and what shows it; both empty for none."""
    fields = {name: reader.line(f"{DMI}/{name}") for name in FIELDS}
    return _by_dmi(fields) or _by_cloud_id(reader) or ("", "")


def _by_dmi(fields: dict[str, str]) -> tuple[str, str] | None:
    for vendor, name, text in BY_DMI:
        if fields[name].lower().startswith(text):
            return vendor, f"{name} is {fields[name]!r}"
    for name, text in OPENSTACK:
        if fields[name].lower().startswith(text):
            return "OpenStack", f"{name} is {fields[name]!r}, port security is on by default"
    return None


def _by_cloud_id(reader: Reader) -> tuple[str, str] | None:
    path = "/run/cloud-init/cloud-id"
    word = reader.line(path)
    vendor = BY_CLOUD_ID.get(word.split("-")[0])
    return None if vendor is None else (vendor, f"{path} says {word!r}")


def _hyper_v(nic: Nic) -> Cloud | None:
    if nic.driver != "hv_netvsc":
        return None
    reason = "a Hyper-V switch drops foreign MAC addresses unless the VM may team or spoof them"
    return Cloud("Hyper-V", reason, certain=False)


def _without_dmi(fields: dict[str, str]) -> Cloud | None:
    if any(fields.values()):
        return None
    reason = f"{DMI} tells nothing, so a cloud's virtual machine looks like any other"
    return Cloud("unknown", reason, certain=False)
