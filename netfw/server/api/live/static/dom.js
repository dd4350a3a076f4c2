// Elements of the page.  Text is always set as text: names are the input of tenants.

export function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "data") Object.assign(node.dataset, value);
    else if (name.includes("-")) node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children);
  return node;
}

export const find = (id) => document.getElementById(id);

// Let the children of *parent* be one for each item, in order; elements with an equal key stay, and
// with them the focus of the keyboard.
export function reconcile(parent, items, create, update) {
  const present = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  items.forEach((item, at) => {
    const node = present.get(item.key) ?? create(item);
    present.delete(item.key);
    node.dataset.key = item.key;
    update(node, item);
    if (parent.children[at] !== node) parent.insertBefore(node, parent.children[at] ?? null);
  });
  for (const node of present.values()) node.remove();
}
