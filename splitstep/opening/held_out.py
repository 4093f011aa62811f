"""Texts that are kept apart from the eight that everything is measured on: to judge what was chosen with those."""

from typing import Literal, NamedTuple

Kind = Literal["prose", "code", "dialogue"]


class HeldOut(NamedTuple):
    """A text and its kind."""

    kind: Kind
    text: str


PROSE = (
    "The lighthouse at the end of the point has had no keeper for thirty years. A small computer in the cellar turns "
    "the lamp on at dusk and counts how often the foghorn sounds. Twice a year a woman comes by boat to clean the "
    "glass, which the gulls do not respect, and to paint whatever the salt has eaten. She says that the machine is "
    "reliable, and that it has never once offered her a cup of tea.",
    "A loaf of rye bread keeps longer than a loaf of wheat because it holds more water and is slightly sour. Bakers in "
    "the north used to bake only a few times a year and hung the flat loaves on poles under the ceiling. By the end of "
    "winter they were so hard that they had to be broken with a hammer and softened in milk before anybody could eat "
    "them.",
    "The town council argued for three evenings about a single chestnut tree. It stood where the new tram was supposed "
    "to turn, and the engineers said that moving the rails by two metres would cost as much as a small school. On the "
    "fourth evening an old surveyor unfolded a map on which the street was wider than anyone had thought, and the tree "
    "was allowed to stay.",
    "Glass is not a liquid that flows very slowly, although many people have heard so from their teachers. Old windows "
    "are thicker at the bottom because the panes were never even, and a glazier put the heavy edge below. At room "
    "temperature the atoms would need far longer than the age of the universe to move by a visible amount.",
    "When the river froze in January, the children walked to school across it and saved twenty minutes. Their parents "
    "pretended not to know. In the last week of February the ice began to groan at noon, and one morning there was a "
    "dark line down the middle. Nobody said a word about it, but on the next day the long way around was full of "
    "children.",
    "The orchestra's second oboist had a habit of counting rests with her toes. During a symphony with a rest of "
    "ninety-one bars she lost a shoe, which slid down the steps and stopped beside the conductor. He looked at it, "
    "missed half a beat, and went on. The critics praised the unusual hesitation before the slow theme and wondered "
    "what it was meant to say.",
    "A lease on a flat in this city is usually signed for an unlimited time, and the tenant may leave with three "
    "months' notice. The landlord needs a reason, such as wanting to live there himself. Rents may rise by no more "
    "than a fixed share within three years, so people who have stayed for decades often pay half of what their new "
    "neighbours do.",
    "Most of the stars that one can see without a telescope are larger and brighter than the sun, not because such "
    "stars are common but because the small ones are too faint to notice. Of the fifty nearest stars hardly any is "
    "visible to the naked eye. What looks like a fair sample of the sky is in truth a list of exceptions.",
)

CODE = (
    '''def moving_average(values, width):
    """Means of all windows of this width, from left to right."""
    if width < 1 or width > len(values):
        raise ValueError(f"a window of {width} does not fit {len(values)} values")
    total = sum(values[:width])
    means = [total / width]
    for new, old in zip(values[width:], values):
        total += new - old
        means.append(total / width)
    return means
''',
    """SELECT customer.name, COUNT(*) AS orders, SUM(line.quantity * line.price) AS revenue
FROM customer
JOIN purchase ON purchase.customer_id = customer.id
JOIN line ON line.purchase_id = purchase.id
WHERE purchase.placed_on >= '2021-01-01' AND purchase.cancelled = FALSE
GROUP BY customer.name
HAVING COUNT(*) > 3
ORDER BY revenue DESC
LIMIT 20;
""",
    """#include <stdio.h>
#include <string.h>

/* Reverse a line in place, without its newline. */
static void reverse(char *line) {
    size_t left = 0, right = strcspn(line, "\\n");
    while (left + 1 < right) {
        char kept = line[left];
        line[left++] = line[--right];
        line[right] = kept;
    }
}
""",
    """async function fetchAll(urls, limit) {
  const results = new Array(urls.length);
  let next = 0;
  async function worker() {
    while (next < urls.length) {
      const index = next++;
      const response = await fetch(urls[index]);
      results[index] = response.ok ? await response.text() : null;
    }
  }
  await Promise.all(Array.from({ length: limit }, worker));
  return results;
}
""",
    """#!/bin/sh
# Keep the ten newest archives of a folder and remove the rest.
folder="${1:-/var/backups}"
keep=10
count=0
for archive in $(ls -t "$folder"/*.tar.gz); do
    count=$((count + 1))
    if [ "$count" -gt "$keep" ]; then
        echo "removing $archive"
        rm -- "$archive"
    fi
done
""",
    """class Inventory:
    def __init__(self):
        self.counts = {}

    def add(self, item, count=1):
        self.counts[item] = self.counts.get(item, 0) + count

    def remove(self, item, count=1):
        left = self.counts.get(item, 0) - count
        if left < 0:
            raise KeyError(f"only {left + count} of {item} in stock")
        self.counts[item] = left
""",
    """use std::collections::HashMap;

/// Count how often each word occurs, ignoring case.
fn word_counts(text: &str) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for word in text.split_whitespace() {
        let key = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        if !key.is_empty() {
            *counts.entry(key).or_insert(0) += 1;
        }
    }
    counts
}
""",
    """<form action="/booking" method="post" class="booking">
  <label for="guests">Number of guests</label>
  <input id="guests" name="guests" type="number" min="1" max="12" value="2">
  <label for="day">Day of arrival</label>
  <input id="day" name="day" type="date" required>
  <p class="hint">Breakfast is served from seven until ten.</p>
  <button type="submit">Book a table</button>
</form>
""",
)

DIALOGUE = (
    '"Did you feed the cat?"\n"I thought you had."\n"So nobody fed the cat."\n"The neighbour may have. She has '
    'a key, and she was here at noon to water the plants."\n"Then why is it sitting on the kitchen table and '
    'shouting at us?"\n"Because it knows that we do not talk to the neighbour, and that it can always get a second '
    'dinner."',
    "Customer: I ordered a blue lamp, and the one that came is green.\nAgent: I am sorry about that. Could you read me "
    "the number on the label?\nCustomer: It says four four seven, and then a letter that is either a B or an eight."
    "\nAgent: If it is a B, the lamp should be blue. If it is an eight, you have a lamp that we do not sell."
    "\nCustomer: Then I think I would like to keep it.",
    "ANNA. How long have we been waiting for this train?\nPETER. Forty minutes, but the board still says ten."
    "\nANNA. It said ten when we came.\nPETER. Perhaps it means ten of something else.\nANNA. Ten hours? Ten people? "
    "Tell me honestly, did you look at the timetable before we left the house?\nPETER. I looked at one. It was a very "
    "handsome timetable, from last year.",
    "Q: What is the difference between a weather forecast and a climate projection?\nA: A forecast says what the air "
    "will do on a certain day. A projection says how often such days will come.\nQ: So why should I trust the second, "
    "if the first is wrong after a week?\nA: For the same reason that you can tell how many heads a thousand coins "
    "will show, but not what the next one will do.",
    '"Doctor, it only hurts when I lift my arm like this."\n"And how often do you need to lift it like that?"\n"I '
    'am a conductor."\n"Of an orchestra or of a bus?"\n"A bus, these days. The cord for the bell hangs from the '
    'ceiling."\n"Then I will write you a note for two weeks, and a letter to the company. They could simply tie a '
    'longer piece of string to it."',
    "User: Can you help me to plan a meal for six people, two of whom do not eat meat?\nAssistant: Gladly. Is there an "
    "oven, and how much time do you have?\nUser: There is a small oven, and I have about an hour.\nAssistant: Then I "
    "would roast vegetables on one tray and bake a dish of beans with tomatoes on the other. A bowl of rice goes with "
    "both, and nobody needs a plate of their own kind.",
    "Mira: The bug is back.\nJonas: Which one?\nMira: The one where the invoice is dated tomorrow.\nJonas: Only for "
    "customers in Auckland?\nMira: Only for those, and only in the evening here.\nJonas: Then it is not a bug in the "
    "invoice. For them it really is tomorrow already.\nMira: Please explain that to the auditor, who is on the phone "
    "and does not believe in time zones.",
    '"You said that the house was five minutes from the beach."\n"It is, if you know the path."\n"We walked for '
    'half an hour, and then there was a fence with a bull behind it."\n"That is the path. The bull is called Oscar, '
    'and he does not mind."\n"My mother minds. She is sitting on your terrace now and wants to see the beach from '
    'there, as it was in the picture."',
)

HELD_OUT = (
    *(HeldOut("prose", one) for one in PROSE),
    *(HeldOut("code", one) for one in CODE),
    *(HeldOut("dialogue", one) for one in DIALOGUE),
)
"""Eight of each kind, written for this package like the others."""
