"""The mechanism's own sentences: what is said whatever the choices and rules are. Sent to the browser as they are."""

from __future__ import annotations

from slime.experiment.texts import Text

MESSAGES: dict[str, Text] = {
    "not_mapping": Text(
        "实验应是“选项名: 值”的映射，这里是{got}。",
        "An experiment is a mapping of choice names to values; this is {got}.",
    ),
    "schema": Text(
        "experiment.json 的 schema 是{got}；这里能读 1 和 2。",
        "The schema of this experiment.json is {got}; 1 and 2 can be read here.",
    ),
    "unknown": Text("没有名为 {key} 的选项。", "There is no choice named {key}."),
    "more_unknown": Text("另有 {more} 个键不是选项。", "{more} more keys are no choices."),
    "wrong_type": Text(
        "{key} 需要{wanted}，这里是{got}；值不作任何转换。", "{key} takes {wanted}, not {got}; nothing is converted."
    ),
    "not_a_value": Text("{key} 没有取值 {got}；可选：{wanted}。", "{key} has no value {got}; choose from: {wanted}."),
    "out_of_range": Text(
        "{key} 是 {got}，允许的范围是 {minimum} 到 {maximum}。",
        "{key} is {got}; the limits are {minimum} to {maximum}.",
    ),
    "too_long": Text(
        "{key} 有 {got} 个字符，最多 {maximum} 个。", "{key} has {got} characters; at most {maximum} are kept."
    ),
    "malformed": Text(
        "{key} 含有不成对的代理字符，无法写入文件。", "{key} holds half a surrogate pair, which no file can store."
    ),
    "cleaned": Text(
        "{key} 中的控制字符、换行或首尾空格已去掉。",
        "Control characters, line breaks or outer spaces were removed from {key}.",
    ),
    "follows_model": Text("随模型 {display} 更新。", "Follows the model {display}."),
    "R01": Text(
        "{choice} 会写出 {flags}，目前的运行时还不支持；启动器会指名拒绝这份脚本。",
        "{choice} writes {flags}, which the runtime does not run yet; the launcher refuses this shell by name.",
    ),
    "R01_more": Text(
        "{choice} 会写出 {flags} 等标志（另有 {more} 个），目前的运行时还不支持；启动器会指名拒绝这份脚本。",
        "{choice} writes {flags} and {more} more flags that the runtime does not run yet; the launcher refuses this "
        "shell by name.",
    ),
    "no_repair": Text(
        "在选项的上下限之内，没有改法能消除这条诊断。",
        "No change within the limits of the choices removes this finding.",
    ),
    "no_such_repair": Text(
        "{finding} 在这个状态下没有名为 {repair} 的可用修复。",
        "{finding} offers no repair named {repair} in this state.",
    ),
    "file_empty": Text(
        "一个选择也没有；至少写出模型，例如 model: tiny", "holds no choices; name at least a model, e.g. model: tiny"
    ),
    "no_file": Text("读不到：{why}", "cannot be read: {why}"),
    "is_file": Text("是一个文件；请指定一个文件夹", "is a file; name a folder"),
    "changed": Text(
        "在写出之后被改过，或来自别处；没有写入任何文件。请换一个文件夹，或加 --force 覆盖。",
        "was changed since it was written, or came from elsewhere; nothing was written. Name another folder, or "
        "replace it with --force.",
    ),
    "no_folder": Text("无法写入：{why}", "cannot be written: {why}"),
    "planned": Text("计划中", "planned"),
    "runs": Text("可运行", "runs"),
    "file_large": Text(
        "超过 {maximum} 字节；一份实验只有几 KB", "larger than {maximum} bytes; an experiment is a few kilobytes"
    ),
    "not_utf8": Text("第 {position} 个字节不是 UTF-8", "byte {position} is not UTF-8"),
    "no_choices": Text(
        "有 schema 而没有 choices；实验的选项要写在 choices 里。",
        "It has schema and no choices; the choices of an experiment.json stand under that key.",
    ),
    "no_choices_near": Text(
        "有 schema 而没有 choices；{near} 是不是写错的 choices？",
        "It has schema and no choices; is {near} a misspelling?",
    ),
    "unused": Text(
        "{key} 不是 experiment.json 的内容，没有读取。", "{key} is no part of an experiment.json and was not read."
    ),
    "stale": Text(
        "是更早的一次实验留下的，这次没有写；不再需要就请删除。",
        "is left from an earlier experiment and was not written this time; remove it if it is of no more use.",
    ),
    "json_large": Text(
        "这段文字超过 {maximum} 字节；一份实验只有几 KB。",
        "The text is larger than {maximum} bytes; an experiment is a few kilobytes.",
    ),
    "json_syntax": Text("第 {line} 行不是 JSON，出错处：{near}", "Line {line} is no JSON, from here on: {near}"),
    "json_cut": Text("JSON 到第 {line} 行就断了，没有写完。", "The JSON stops in line {line} before it is complete."),
    "json_deep": Text(
        "第 {line} 行的嵌套超过 {maximum} 层；实验是一层的映射。",
        "Line {line} is nested deeper than {maximum} levels; an experiment is a flat mapping.",
    ),
    "json_twice": Text(
        "第 {line} 行的键 {key} 出现了两次，无法判断哪个算数。",
        "The key {key} stands twice, again in line {line}; which one counts is unclear.",
    ),
    "too_many_keys": Text(
        "这里有 {got} 个键，最多读 {maximum} 个；实验一共只有 {known} 个选项。",
        "There are {got} keys and at most {maximum} are read; an experiment has {known} choices.",
    ),
    "nothing_known": Text(
        "这里没有一个认得的选项，例如 model、layout。",
        "None of the keys is a choice of an experiment, such as model or layout.",
    ),
    "link_large": Text(
        "链接超过 {maximum} 个字符；实验的链接只有几百个。",
        "The link is longer than {maximum} characters; that of an experiment has a few hundred.",
    ),
    "link_encoding": Text("链接中的百分号编码已损坏。", "The percent-encoding of the link is damaged."),
    "link_twice": Text("链接里 {key} 出现了两次。", "The link has {key} twice."),
    "link_version": Text(
        "链接的开头应是版本号，这里是 {got}。", "A link starts with its version number; this one starts with {got}."
    ),
    "link_newer": Text(
        "这个链接的版本是 {got}，本页只认到 {known}；请用更新的页面打开。",
        "The link has version {got} and this page knows versions up to {known}; open it on a newer page.",
    ),
    "link_start": Text(
        "版本 {version} 的链接没有名为 {got} 的起点；有：{wanted}。",
        "Links of version {version} have no starting point named {got}; there are: {wanted}.",
    ),
    "link_part": Text("链接中的 {key} 不是“选项=值”。", "{key} in the link is no choice=value."),
    "link_private": Text(
        "{key} 只属于各自的机器，从不取自链接。", "{key} belongs to one machine and is never taken from a link."
    ),
    "link_value": Text(
        "链接中 {key} 的值 {got} 无法读成{wanted}。", "{got} in the link cannot be read as {wanted} for {key}."
    ),
    "kind_decimal": Text("正的十进制数", "a positive decimal number"),
    "kind_text": Text("文字", "text"),
    "kind_bool": Text("真假值", "true or false"),
    "kind_int": Text("整数", "an integer"),
    "kind_number": Text("非整数的数", "a number that is no integer"),
    "kind_huge": Text("超出精确范围的数", "a number outside the exact range"),
    "kind_list": Text("列表", "a list"),
    "kind_mapping": Text("映射", "a mapping"),
    "kind_null": Text("空值", "null"),
    "on": Text("开", "on"),
    "off": Text("关", "off"),
    "empty": Text("（空）", "(empty)"),
}
"""Every sentence by its key."""
