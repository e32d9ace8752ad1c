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
}
"""Every sentence by its key."""
