import type { enPasskeys } from './en-passkeys.ts';

export const zhPasskeys: { readonly [K in keyof typeof enPasskeys]: string } = {
  'nav.you': '个人',
  'you.title': '个人',
  'you.name': '姓名',
  'you.roles': '角色',
  'you.groups': '组',
  'passkey.title': '通行密钥',
  'passkey.about': '部分队列只接受用通行密钥签名的批准。新的通行密钥要等组织根密钥签署包含它的名单后才有效。',
  'passkey.noneYet': '还没有通行密钥',
  'passkey.added': '添加于 {{time}}',
  'passkey.listed': '有效',
  'passkey.unlisted': '等待签署名单',
  'passkey.remove': '移除 {{label}}',
  'passkey.label': '新通行密钥的名称',
  'passkey.labelHint': '笔记本电脑、安全密钥',
  'passkey.add': '添加通行密钥',
  'passkey.failed': '未完成',
  'passkey.cancelled': '浏览器或验证器中止了操作,请重试。',
  'passkey.mismatch':
    '网关要求通行密钥签署的内容与本页显示的不同。没有签署任何内容。请重新阅读该调用,并通知网关的管理者。',
  'passkey.none': '你在这里没有通行密钥,请在“个人”页面添加。',
  'passkey.needed': '此队列只接受用你的通行密钥签名的批准。',
  'decide.refusal': '你的批准不会计入:{{why}}。',
  'signIn.oidc': '用组织账号登录',
  'signIn.again': '重新登录后再试一次',
  'signIn.newLink': '登录时间过久,不能执行此操作。请打开新的一次性登录链接。',
};
