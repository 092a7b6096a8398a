"""What keeps the kernel arguments of a twin: `rpm-ostree kargs`, `grubby`, `update-grub`.

Each works on the files the real one has: entries of the boot loader specification, or
/etc/default/grub and the grub.cfg made from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from podrail.host.seam import Ran
from podrail.host.twin import TwinHost
from podrail.host.twins import spec
from podrail.host.twins.programs.answer import not_modelled, refused, said

Model = Callable[[TwinHost, Sequence[str]], Ran]

_ENTRIES = "/boot/loader/entries"
_GRUB_DEFAULT = "/etc/default/grub"
_GRUB_DROP_INS = "/etc/default/grub.d"
_GRUB_CFG = "/boot/grub/grub.cfg"
_LINUX = re.compile(r"^\tlinux\t(\S+) (.*)$", re.MULTILINE)
_ASSIGNED = re.compile(r'^(GRUB_CMDLINE_LINUX(?:_DEFAULT)?)="(.*)"$')
_WITHOUT = re.compile(r'\$\(podrail_without "\$\w+" "([^"]*)"\)')


# --- installing -------------------------------------------------------------------------------


def install(host: TwinHost, machine: spec.Machine) -> dict[str, Model]:
    """The files of the machine's boot loader, and its program."""
    words = machine.cmdline.split()
    own = [word for word in words if not word.startswith("BOOT_IMAGE=")]
    if machine.bootloader == "rpm-ostree":
        host.put("/run/ostree-booted", "")
        _put_entry(host, "ostree-1-rhcos", own)
        return {"rpm-ostree": rpm_ostree}
    if machine.bootloader == "grubby":
        _put_entry(host, f"c4d5-{machine.kernel}", own)
        _put_entry(host, "c4d5-0-rescue", [w for w in own if not w.startswith("crashkernel")])
        return {"grubby": grubby}
    if machine.bootloader == "update-grub":
        _install_grub(host, own, machine.kernel)
        return {"update-grub": update_grub}
    return {}


def _install_grub(host: TwinHost, own: Sequence[str], kernel: str) -> None:
    args = [word for word in own if not word.startswith("root=") and word != "ro"]
    host.put(
        _GRUB_DEFAULT,
        'GRUB_DEFAULT=0\nGRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX_DEFAULT=""\n'
        f'GRUB_CMDLINE_LINUX="{" ".join(args)}"\n',
    )
    host.put("/usr/sbin/update-grub", "")
    root = [word for word in own if word.startswith("root=")]
    _make_cfg(host, f"/boot/vmlinuz-{kernel}", root, " ".join(args), "")


def next_cmdline(host: TwinHost) -> str | None:
    """The command line of the next boot; None where no boot loader keeps one."""
    image = [w for w in host.text("/proc/cmdline").split() if w.startswith("BOOT_IMAGE=")]
    entries = _entry_names(host)
    if entries:
        return " ".join([*image, *_options(host, entries[-1])])
    found = _LINUX.search(host.text(_GRUB_CFG))
    return " ".join([*image, *found[2].split()]) if found else None


# --- entries of the boot loader specification -------------------------------------------------


def _entry_names(host: TwinHost) -> list[str]:
    return sorted(host.names(_ENTRIES))


def _put_entry(host: TwinHost, name: str, options: Sequence[str]) -> None:
    text = f"title {name}\nlinux /vmlinuz-{name}\noptions {' '.join(options)}\n"
    host.put(f"{_ENTRIES}/{name.removesuffix('.conf')}.conf", text)


def _options(host: TwinHost, name: str) -> list[str]:
    lines = host.text(f"{_ENTRIES}/{name}").splitlines()
    return next((line.split()[1:] for line in lines if line.startswith("options ")), [])


def _change_entries(host: TwinHost, add: Sequence[str], drop: Iterable[str]) -> bool:
    """Whether anything changed."""
    changed, gone = False, set(drop)
    for name in _entry_names(host):
        now = _options(host, name)
        new = [word for word in now if word not in gone]
        new += [word for word in add if word not in new]
        changed |= new != now
        _put_entry(host, name, new)
    return changed


def rpm_ostree(host: TwinHost, argv: Sequence[str]) -> Ran:
    """`rpm-ostree kargs [--append-if-missing=ARG] [--delete-if-present=ARG]`."""
    words = list(argv[1:])
    if words[:1] != ["kargs"]:
        return not_modelled(argv)
    asked = [word.partition("=")[::2] for word in words[1:]]
    if {name for name, _ in asked} - {"--append-if-missing", "--delete-if-present"}:
        return not_modelled(argv)
    if not asked:
        return said(argv, " ".join(_options(host, _entry_names(host)[-1])) + "\n")
    add = [arg for name, arg in asked if name == "--append-if-missing"]
    drop = [arg for name, arg in asked if name == "--delete-if-present"]
    if not _change_entries(host, add, drop):
        return said(argv, "No changes.\n")
    told = 'Changes queued for next boot. Run "systemctl reboot" to start a reboot\n'
    return said(argv, f"Staging deployment... done\n{told}")


def grubby(host: TwinHost, argv: Sequence[str]) -> Ran:
    """`grubby --info=ALL` and `grubby --update-kernel=ALL [--args=…] [--remove-args=…]`."""
    asked = dict(word.partition("=")[::2] for word in argv[1:])
    if asked == {"--info": "ALL"}:
        blocks = [_info(host, n, name) for n, name in enumerate(reversed(_entry_names(host)))]
        return said(argv, "".join(blocks))
    if set(asked) - {"--update-kernel", "--args", "--remove-args"}:
        return not_modelled(argv)
    if asked.get("--update-kernel") != "ALL":
        return not_modelled(argv)
    add = asked.get("--args", "").split()
    # grubby(8): "If an argument already exists the new value replaces the old values"
    keys = {word.partition("=")[0] for word in add}
    known = {word for name in _entry_names(host) for word in _options(host, name)}
    drop = {word for word in known if word.partition("=")[0] in keys and word not in add}
    _change_entries(host, add, drop | set(asked.get("--remove-args", "").split()))
    return said(argv, "")


def _info(host: TwinHost, index: int, name: str) -> str:
    words = _options(host, name)
    root = next((w.removeprefix("root=") for w in words if w.startswith("root=")), "")
    args = " ".join(word for word in words if not word.startswith("root="))
    short = name.removesuffix(".conf")
    return (
        f'index={index}\nkernel="/boot/vmlinuz-{short}"\nargs="{args}"\nroot="{root}"\n'
        f'initrd="/boot/initramfs-{short}.img"\ntitle="{short}"\nid="{short}"\n'
    )


# --- grub-mkconfig ----------------------------------------------------------------------------


def update_grub(host: TwinHost, argv: Sequence[str]) -> Ran:
    """grub-mkconfig: /etc/default/grub and then each /etc/default/grub.d/*.cfg, by name."""
    if len(argv) != 1:
        return not_modelled(argv)
    found = _LINUX.search(host.text(_GRUB_CFG))
    values = {"GRUB_CMDLINE_LINUX": "", "GRUB_CMDLINE_LINUX_DEFAULT": ""}
    told = "Sourcing file `/etc/default/grub'\n"
    _source(host, _GRUB_DEFAULT, values)
    for name in sorted(n for n in host.names(_GRUB_DROP_INS) if n.endswith(".cfg")):
        _source(host, f"{_GRUB_DROP_INS}/{name}", values)
        told += f"Sourcing file `{_GRUB_DROP_INS}/{name}'\n"
    if found is None:
        return refused(argv, 1, "/usr/sbin/grub-mkconfig: cannot find a kernel")
    root = [word for word in found[2].split() if word.startswith("root=")]
    common, usual = values["GRUB_CMDLINE_LINUX"], values["GRUB_CMDLINE_LINUX_DEFAULT"]
    _make_cfg(host, found[1], root, common, usual)
    return refused(argv, 0, f"{told}Generating grub configuration file ...\ndone")


def _make_cfg(host: TwinHost, image: str, root: Sequence[str], common: str, usual: str) -> None:
    """/etc/grub.d/10_linux: the recovery entry has only what is common."""
    text = "".join(
        f"menuentry '{title}' {{\n\tlinux\t{image} {' '.join([*root, 'ro', *args.split()])}\n}}\n"
        for title, args in (
            ("Ubuntu", f"{common} {usual}"),
            ("Ubuntu (recovery mode)", f"recovery nomodeset {common}"),
        )
    )
    host.put(_GRUB_CFG, text)


def _source(host: TwinHost, path: str, values: dict[str, str]) -> None:
    """The assignments of a file, as sh would do them; `podrail_without` is the drop-in's own."""
    for line in host.text(path).splitlines():
        found = _ASSIGNED.match(line)
        if found is None:
            continue
        name, value = found[1], found[2]
        if without := _WITHOUT.search(value):
            kept = [w for w in values[name].split() if w not in without[1].split()]
            value = value.replace(without[0], "".join(f"{word} " for word in kept))
        values[name] = value.replace(f"${name}", values[name])
